"""What faults and churn have in common: a schedule on a stage, and draws of their own streams."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

from overlay.ids import Nanos, nanos
from overlay.machine import Fact
from overlay.rng import rng_for
from sims.scenarios.stage import Stage
from sims.world.world import CrashMode


class Deed(StrEnum):
    """What can be done to a ring."""

    CRASH = "crash"
    LEAVE = "leave"
    JOIN = "join"
    RESTART = "restart"
    PAUSE = "pause"
    PAUSE_ENDED = "pause ended"
    CUT = "link cut"
    MENDED = "link mended"
    PARTITION = "partition"
    HEALED = "partition healed"
    SKEW = "clock skewed"
    UNSKEW = "clock right again"
    AMID_JOIN = "crash amid join"
    AMID_REPAIR = "crash amid repair"
    AMID_MERGE = "crash amid merge"
    MOVE = "client moved"


#: Whom these befall dies now.
CRASHES = frozenset((Deed.CRASH, Deed.AMID_JOIN, Deed.AMID_REPAIR, Deed.AMID_MERGE))

CONTACTS = 3  #: members whose URLs a newcomer is given


class Deeds:
    """What is done to a stage, by whom, and how often.

    Times are seconds since the ring was formed. Each fault and churn model draws from streams that
    are named by its place in the file, so that a change of one does not shift another.
    """

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.done: Counter[Deed] = Counter()  #: what was done how often
        #: Told of each deed, before it, and of the brokers that it befalls.
        self.heard: Callable[[Deed, tuple[str, ...]], None] = lambda what, whom: None
        #: Told of what brokers say, and of those that are started.
        self.watchers: list[Callable[[str, Fact | None], None]] = []
        self._seed = seed
        self._ended = False
        self._start = stage.timeline.now
        self.healed_at: Nanos | None = None  #: when a partition ended last
        self.until_ns = self._start  #: when the last of what is planned happens
        self.mended_ns = self._start  #: when the last fault ends of those that have struck

    def rng(self, *path: object) -> random.Random:
        """Return the stream of that name."""
        return rng_for(self._seed, "scenario", *path)

    def at(self, seconds: float, action: Callable[..., object], *args: object) -> None:
        """Do something so many seconds after the beginning; what is past is done at once."""
        timeline = self.stage.timeline
        time = max(self._start + nanos(seconds), timeline.now)
        self.until_ns = max(self.until_ns, time)
        timeline.at(time, _do, action, args)

    def after(self, seconds: float, action: Callable[..., object], *args: object) -> None:
        """Do something so many seconds from now."""
        timeline = self.stage.timeline
        timeline.at(timeline.now + nanos(seconds), _do, action, args)

    def mend(self, seconds: float, action: Callable[..., object], *args: object) -> None:
        """Do so many seconds from now what ends a fault: the ring cannot be whole before."""
        self.mended_ns = max(self.mended_ns, self.stage.timeline.now + nanos(seconds))
        self.after(seconds, action, *args)

    @property
    def seconds(self) -> float:
        """How long it has gone on."""
        return (self.stage.timeline.now - self._start) / nanos(1)

    def stop(self) -> None:
        """Break nothing any more; what ends a fault still happens."""
        self._ended = True

    @property
    def is_over(self) -> bool:
        """Nothing more is to be broken."""
        return self._ended

    def note(self, what: Deed, *whom: str) -> None:
        """Count something that is done now, to these brokers."""
        self.heard(what, whom)
        if what is Deed.HEALED:
            self.healed_at = self.stage.timeline.now
        self.done[what] += 1

    def watch(self, uid: str, fact: Fact | None) -> None:
        """Tell the watchers what a broker says; None: it was started."""
        for watcher in self.watchers:
            watcher(uid, fact)

    # ── what several of them do ───────────────────────────────────────────────────────────────

    def is_alive(self, uid: str) -> bool:
        """Say whether a broker's process runs."""
        return self.stage.is_alive(uid)

    def crash(self, uid: str, mode: CrashMode, what: Deed = Deed.CRASH) -> bool:
        """Let a broker die, unless it is dead or the last of all; says whether it did."""
        if self.is_over or not self.stage.is_alive(uid) or len(self.stage.alive) < 2:
            return False
        self.note(what, uid)
        self.stage.crash(uid, mode)
        return True

    def leave(self, uid: str) -> bool:
        """Ask a broker to leave, unless it is dead or the last of all; says whether it did."""
        if self.is_over or not self.stage.is_alive(uid) or len(self.stage.alive) < 2:
            return False
        self.note(Deed.LEAVE, uid)
        self.stage.leave(uid)
        return True

    def join(self, rng: random.Random, contacts: int = CONTACTS) -> str | None:
        """Start a newcomer that is given a few members; without members there is none."""
        members = self._drawn(rng, contacts)
        if self.is_over or not members:
            return None
        self.note(Deed.JOIN)
        uid = self.stage.start(members)
        self.watch(uid, None)
        return uid

    def back(self, uid: str, rng: random.Random) -> None:
        """Start a broker again that is dead."""
        members = self._drawn(rng, CONTACTS)
        if members and not self.stage.is_alive(uid):
            self.note(Deed.RESTART, uid)
            self.stage.restart(uid, members)
            self.watch(uid, None)

    def _drawn(self, rng: random.Random, count: int) -> list[str]:
        return self.stage.ledger.draw(rng, count)


def spread_out(rng: random.Random, count: int, at_s: float, over_s: float) -> list[float]:
    """Return so many random times, in order; all at once where they are spread over nothing."""
    return sorted(at_s + rng.random() * over_s for _ in range(count)) if over_s else [at_s] * count


def how_many(share: float, count: int, of: int) -> int:
    """Return how many are struck: a number, or else a share; at least one is left in peace."""
    return max(0, min(count or round(share * of), of - 1))


def _do(action: Callable[..., object], args: tuple[object, ...]) -> None:
    action(*args)
