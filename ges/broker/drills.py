"""The broker's side of a drill: it breaks itself when asked, and tells what it saw of others.

Only a broker that was started for it does so (``serve --drills``). It keeps in memory the last
:data:`KEPT` things that it has seen, for the drill to ask.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable

import trio

from ges.wire.drill_messages import (
    SEEN_PER_MESSAGE,
    CutOff,
    Die,
    Drilled,
    Question,
    Seen,
    SeenRequest,
    Sight,
    StandStill,
)
from ges.wire.operator_messages import Operated
from overlay.driver import Driver
from overlay.ids import NANOS_PER_SECOND, short
from overlay.links.counted_log import CountedLog
from overlay.machine import Fact, Message
from ring.facts import (
    ChordLost,
    ChordRepaired,
    Confirmed,
    LinkFailed,
    NeighboursChanged,
    Refuted,
    Rejoining,
    Repaired,
    Suspected,
)
from ring.wire.messages import Member

KEPT = 4096
MOST_CUTS = 16  #: brokers that it may be cut off from at one time
FLUSH_SECONDS = 0.5  #: for the answer to leave, before it breaks
FLUSH_LOOK_SECONDS = 0.0005

NO_CONSENT = "this broker takes part in no drills; start it with serve --drills"


class Drills:
    """What one broker does for drills. ``run`` breaks it, once the answer has left."""

    def __init__(self, driver: Driver, profile: str, *, has_process: bool) -> None:
        """``has_process``: it is alone in its process, which may be ended or stand still."""
        self._driver = driver
        self._profile = profile
        self._has_process = has_process
        self._seen: deque[Seen] = deque(maxlen=KEPT)
        self._last = 0
        self._counted_log: CountedLog = driver.counted_log
        self._wanted: deque[tuple[Die | StandStill, Callable[[], int]]] = deque()
        self._is_wanted = trio.Event()

    # ── what it sees ──────────────────────────────────────────────────────────────────────────

    def on_fact(self, fact: Fact) -> None:
        """Keep what the ring says of failures and pointers."""
        match fact:
            case Suspected(subject):
                self._note(Sight.SUSPECTED, subject)
            case Refuted(subject):
                self._note(Sight.REFUTED, subject)
            case Confirmed(subject, witnesses):
                self._note(Sight.CONFIRMED, subject, witnesses)
            case LinkFailed(subject, witness):
                self._note(Sight.LINK_FAILED, subject, (witness,))
            case Repaired(subject):
                self._note(Sight.REPAIRED, subject)
            case ChordLost(uid):
                self._add(Sight.CHORD_LOST, uid)
            case ChordRepaired(uid):
                self._add(Sight.CHORD_REPAIRED, uid)
            case Rejoining():
                self._add(Sight.REJOINING)
            case NeighboursChanged(left, right):
                self._add(
                    Sight.POINTERS,
                    left=tuple(member.uid for member in left),
                    right=tuple(member.uid for member in right),
                )
            case _:
                pass

    def _note(self, what: Sight, subject: Member, witnesses: tuple[str, ...] = ()) -> None:
        self._add(what, subject.uid, subject.incarnation, witnesses)

    def _add(
        self,
        what: Sight,
        uid: str = "",
        incarnation: int = 0,
        witnesses: tuple[str, ...] = (),
        left: tuple[str, ...] = (),
        right: tuple[str, ...] = (),
    ) -> None:
        self._last += 1
        now = self._driver.now()
        self._seen.append(Seen(self._last, now, what, uid, incarnation, witnesses, left, right))

    # ── what it is asked ──────────────────────────────────────────────────────────────────────

    def take(self, question: Question, asker: str, waiting: Callable[[], int]) -> Message:
        """Do what a drill asks, or say why not.

        ``asker``: as whom the drill is known; ``waiting`` returns the bytes queued for it.
        """
        match question:
            case SeenRequest(after, about):
                seen = tuple(each for each in self._seen if each.number > after)
                sent = tuple(self._driver.sent_about[uid] for uid in about)
                return self._answer(seen[:SEEN_PER_MESSAGE], sent)
            case CutOff(uid, for_ms):
                return self._cut(uid, for_ms, asker)
            case _:
                if not self._has_process:
                    return Operated("this broker has no process of its own to break")
                name = "death" if isinstance(question, Die) else "pause"
                self._counted_log.note("drills_taken", "breaks for a drill", what=name, by=asker)
                self._wanted.append((question, waiting))
                self._is_wanted.set()
                return self._answer()

    def _cut(self, uid: str, for_ms: int, asker: str) -> Message:
        severed = self._driver.severed
        if not for_ms:
            severed.unite(uid)
            return self._answer()
        if uid == self._driver.machine.peer.uid:
            return Operated("a broker cannot be cut off from itself")
        if severed.count(self._driver.now()) >= MOST_CUTS:
            return Operated(f"this broker is cut off from {MOST_CUTS} others already")
        self._counted_log.note(
            "drills_taken", "cut off for a drill", of=short(uid), seconds=for_ms / 1000, by=asker
        )
        self._add(Sight.CUT, uid)
        self._driver.sever(uid, self._driver.now() + for_ms * NANOS_PER_SECOND // 1000)
        return self._answer()

    def _answer(self, seen: tuple[Seen, ...] = (), sent: tuple[int, ...] = ()) -> Drilled:
        peer, now = self._driver.machine.peer, self._driver.now()
        return Drilled(now, peer.incarnation, self._profile, self._last, seen, sent)

    # ── how it breaks ─────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Break as asked, once each answer is on its way."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted = trio.Event()
            while self._wanted:
                question, waiting = self._wanted.popleft()
                with trio.move_on_after(FLUSH_SECONDS):
                    while waiting():  # noqa: ASYNC110 - the kernel says no more
                        await trio.sleep(FLUSH_LOOK_SECONDS)
                if isinstance(question, Die):
                    os.kill(os.getpid(), signal.SIGKILL)
                else:
                    self._stand_still(question.for_ms / 1000)

    def _stand_still(self, seconds: float) -> None:
        """Hold up the event loop: no task runs and no timer, and sockets stay open.

        A process that is stopped by SIGSTOP looks the same from outside. Nobody has to wake this
        one, so none stays asleep when the drill dies.
        """
        self._add(Sight.STILL)
        time.sleep(seconds)
        self._add(Sight.AWAKE)
