"""What the parts of one ring node share: who we are, the time, the timers, the way out."""

from __future__ import annotations

import random
from enum import IntEnum, auto

from overlay.ids import Nanos, Peer
from overlay.machine import (
    Closed,
    CloseLink,
    Effect,
    Fact,
    Message,
    Notify,
    OpenLink,
    Send,
    TimerTable,
)
from ring.config import RingConfig
from ring.facts import DetourEnded
from ring.verdicts import Verdicts
from ring.wire.messages import DetourClosed, Member
from ring.wire.relay import wrap


class Timer(IntEnum):
    """Kinds of timers; a timer's key is ``(kind, subject)``."""

    HEARTBEAT = auto()  #: subject: uid of the monitor
    SILENT = auto()  #: subject: uid of a ring neighbour
    TEST = auto()  #: subject: uid under suspicion; a witness has not answered
    PROBE = auto()  #: subject: uid tested for others
    SHOW = auto()  #: our view, which was about to change on
    LINGER = auto()  #: subject: uid at the other end of a link nobody wants
    RETRY = auto()  #: subject: URL that could not be linked
    CHORDS = auto()
    MEASURE = auto()
    JOIN = auto()  #: this broker's own join
    WAITS = auto()  #: it is on no ring yet, and is to say so
    RESERVED = auto()  #: subject: uid of a newcomer an id is kept for
    KNOCK = auto()
    ROUTE = auto()  #: subject: number of a search of ours
    HEARD = auto()  #: subject: origin and number of a search we passed on
    DETOUR = auto()  #: subject: uid at the far end of a way round that is tried
    QUERY = auto()  #: subject: uid of a chord that cannot be linked
    GAP = auto()  #: subject: side on which all we knew are gone
    DOUBT = auto()  #: subject: uid asked for a sign of life, as a gap may be where it stands
    CARRIER = auto()  #: subject: uid at the other end of a link that carries events, no heartbeats
    COPY = auto()  #: subject: uid of a neighbour that is to get copies
    RECONCILE = auto()
    DUTIES = auto()  #: unclaimed records of the dead, unanswered offers
    LEAVE = auto()  #: the turn of one that leaves, and its handing over
    RECLAIM = auto()  #: records of before a rejoin


class Core:
    """Shared state of the parts, and the list of effects they add to."""

    __slots__ = (
        "_effects",
        "config",
        "detours",
        "joined",
        "now",
        "peer",
        "ring_id",
        "rng",
        "timers",
        "told",
        "verdicts",
    )

    def __init__(self, config: RingConfig, peer: Peer, rng: random.Random) -> None:
        self.config = config
        self.peer = peer
        self.rng = rng
        self.timers: TimerTable[tuple[Timer, str]] = TimerTable()
        self.now: Nanos = 0
        self.ring_id: int | None = None  #: known once a gap owner has assigned it
        self.joined = False
        self.detours: dict[str, tuple[str, ...]] = {}  #: uid -> the way round to it
        self.verdicts = Verdicts()
        self.told: dict[str, Nanos] = {}  #: uid of a linked broker -> when we last sent it anything
        self._effects: list[Effect] = []

    @property
    def member(self) -> Member:
        """This broker with its place; only for those who know it has one."""
        assert self.ring_id is not None
        return Member(self.peer, self.ring_id)

    def take(self) -> list[Effect]:
        """Hand the collected effects over."""
        effects, self._effects = self._effects, []
        return effects

    def send(self, uid: str, message: Message, about: str | None = None) -> None:
        """Send over the link to ``uid``, or along the detour that stands for it (section 3.4.2).

        ``about`` names the incident the message is counted for.
        """
        path = self.detours.get(uid) if self.detours else None
        if path is None:
            self.told[uid] = self.now
            self._effects.append(Send(uid, message, about))
            return
        relay = wrap(self.peer, path, message)
        if relay is not None:
            self.told[uid] = self.told[path[1]] = self.now
            self._effects.append(Send(path[1], relay, about))

    def open(
        self, url: str, uid: str | None, about: str | None = None, *, replace: bool = False
    ) -> None:
        """Ask the driver for a link; it answers with ``LinkUp`` or ``LinkRefused``.

        ``replace``: even if there is one, whose place the new one then takes.
        """
        self._effects.append(OpenLink(url, uid, about, replace=replace))

    def close(self, uid: str, reason: Closed) -> None:
        """Close the link to ``uid``; of a detour, end that and tell its other end."""
        if uid in self.detours:
            self.send(uid, DetourClosed(reason))
            del self.detours[uid]
            self.notify(DetourEnded(uid, restored=False))
            return
        self._effects.append(CloseLink(uid, reason))

    def notify(self, fact: Fact) -> None:
        """State a fact to the driver; verdicts are remembered."""
        self.verdicts.note(fact, self.now)
        self._effects.append(Notify(fact))

    def arm(self, kind: Timer, subject: str, after: Nanos) -> None:
        """Set a timer to ``after`` nanoseconds from now; one that is set already is moved."""
        self.timers.set((kind, subject), self.now + after)

    def disarm(self, kind: Timer, subject: str = "") -> None:
        """Cancel a timer; one that is not set is no error."""
        self.timers.cancel((kind, subject))

    def jitter(self, mean: Nanos) -> Nanos:
        """Return a time between half and one and a half of ``mean``."""
        return mean // 2 + self.rng.randrange(mean + 1)
