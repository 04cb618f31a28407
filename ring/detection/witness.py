"""Witnesses: who is asked whether another broker lives, and what they do (paper 004, section 3.4).

The counterpart of :mod:`ring.detection.suspicions`: a witness probes the subject, over a link that
it makes if there is none, and answers ``alive`` or ``failed`` to all that ask. While it tests,
questions from others about the same subject join the test. A notice of a death that is not believed
at once is such a question: it may come from a broker that was cut off itself, or from a liar.

Departs from the paper in that a witness which reaches the subject only through the one that asks
does not answer: it would learn nothing that one does not know.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from overlay.ids import Peer
from ring.circle.links import RingLinks
from ring.core import Core, Timer
from ring.detection.detector import Detector
from ring.detection.local_health import LocalHealth
from ring.geometry import clockwise, distance
from ring.wire.messages import Failed, Member, Ping, Tested

MAX_TESTS = 256  #: tests made for others at once
MAX_FOUND = 64  #: brokers that failed a test, remembered for the notice that may follow


def in_order(
    subject: Member,
    here: int,
    known: Iterable[Member],
    *,
    linked: Container[str],
    suspected: Container[str],
) -> list[Member]:
    """Return whom to ask about ``subject``, from the broker at ring id ``here``, of all ``known``.

    First the neighbour on the subject's other side, then those linked to us by nearness to it, then
    others. Those under suspicion themselves come last.
    """
    known = list(known)
    if not known:
        return []
    there = subject.ring_id
    rightward = clockwise(here, there) <= clockwise(there, here)

    def beyond(member: Member) -> int:
        ids = (there, member.ring_id)
        return clockwise(*ids) if rightward else clockwise(*reversed(ids))

    first = min(known, key=beyond)

    def rank(member: Member) -> tuple[bool, bool, bool, int, str]:
        uid, nearness = member.uid, distance(member.ring_id, there)
        return uid in suspected, member is not first, uid not in linked, nearness, uid

    return sorted(known, key=rank)


@dataclass(slots=True)
class WitnessTest:
    """One test made for others."""

    subject: Member
    askers: list[str]
    tellers: list[str] = field(default_factory=list)  #: of the askers, those that only told us
    notice: Failed | None = None  #: of the death, as told first
    tries: int = 0  #: pings sent
    is_called: bool = False  #: there was no link, so one is attempted

    @property
    def looking(self) -> tuple[str, ...]:
        """Uids of those that may ask others as well, in the order in which they asked."""
        return tuple(uid for uid in self.askers if uid not in self.tellers)


class WitnessTests:
    """Tests this broker makes as a witness for others."""

    def __init__(
        self, core: Core, links: RingLinks, detector: Detector, health: LocalHealth
    ) -> None:
        self._core = core
        self._links = links
        self._detector = detector
        self._health = health
        self._open: dict[str, WitnessTest] = {}
        self._found_dead: OrderedDict[str, Peer] = OrderedDict()  #: by uid

    def begin(self, asker: str, subject: Member, *, is_dead: bool) -> None:
        """``asker`` wants to know whether ``subject`` lives; a repeated question is one."""
        core, uid = self._core, subject.uid
        if is_dead:
            core.send(asker, Tested(subject, alive=False), uid)
            return
        if uid in self._open:
            if asker not in self._open[uid].askers:
                self._open[uid].askers.append(asker)
            return
        if len(self._open) >= MAX_TESTS:
            return
        if asker in core.detours.get(uid, ()):
            return  # through the one that asks we would learn nothing it does not know
        self._open[uid] = WitnessTest(subject, [asker])
        if uid in self._links.up:
            self._probe(uid)
        else:
            if core.ring_id is not None:
                self._detector.hasten_towards(subject.ring_id, uid)
            self._call(self._open[uid])

    def check(self, teller: str, notice: Failed) -> None:
        """Test whether the subject of ``notice`` is dead, to which we have a link.

        A link by way of the teller shows nothing it does not know, and is not tested.
        """
        self.begin(teller, notice.subject, is_dead=False)
        test = self._open.get(notice.subject.uid)
        if test is not None:
            test.tellers.append(teller)
            test.notice = test.notice or notice

    def askers(self, uid: str) -> tuple[str, ...]:
        """Return who looks into ``uid`` and has us test it, in the order in which they asked."""
        test = self._open.get(uid)
        return test.looking if test is not None else ()

    def has_found_dead(self, subject: Member) -> bool:
        """Say whether the subject has failed a test of ours, and given no sign of life since.

        At the very address at which it is known to be: that of a question may have been false.
        """
        return self._found_dead.get(subject.uid) == subject.peer

    def on_alive(self, uid: str) -> WitnessTest | None:
        """The subject gave a sign of life; returns the test that this ends."""
        self._found_dead.pop(uid, None)
        return self._answer(uid, alive=True) if uid in self._open else None

    def on_due(self, uid: str) -> WitnessTest | None:
        """Nothing heard of the subject: try again, or tell those who asked that it failed."""
        test = self._open.get(uid)
        if test is None:
            return None
        if uid in self._links.up:
            if test.tries < self._core.config.probes:
                self._probe(uid)
                return None
        elif not test.is_called:  # we gave that link up ourselves meanwhile
            self._call(test)
            return None
        return self._answer(uid, alive=False)

    def on_lost(self, uid: str) -> None:
        """The link to the subject is gone: that alone is no death, so it is called."""
        test = self._open.get(uid)
        if test is not None and not test.is_called:
            self._call(test)

    def on_failed(self, uid: str) -> WitnessTest | None:
        """The subject could not be linked; tell those who asked."""
        return self._answer(uid, alive=False) if uid in self._open else None

    def concerns(self, uid: str) -> bool:
        """Say whether a sign of life of ``uid`` would change anything here."""
        return uid in self._open or uid in self._found_dead

    @property
    def is_at_rest(self) -> bool:
        """No sign of life of anybody we are linked to would change anything here."""
        return not self._open and not any(uid in self._links.up for uid in self._found_dead)

    def clear(self) -> None:
        """End all tests without an answer: this broker is off the ring."""
        for uid in self._open:
            self._core.disarm(Timer.PROBE, uid)
        self._open.clear()
        self._found_dead.clear()

    def _call(self, test: WitnessTest) -> None:
        test.is_called = True
        uid = test.subject.uid
        self._links.open(test.subject.peer.url, uid, uid)
        self._core.arm(Timer.PROBE, uid, self._health.stretch(self._core.config.test_ns))

    def _probe(self, uid: str) -> None:
        test, core = self._open[uid], self._core
        test.tries += 1
        core.send(uid, Ping(0), uid)
        if test.tries == 2 and test.looking and core.ring_id is not None:
            # No answer: those that stand between may be dead with it. Who was only told of the
            # death may stand anywhere, and has no part in that.
            self._detector.hasten_towards(test.subject.ring_id, uid)
        wait = self._detector.answer_ns(uid)
        core.arm(Timer.PROBE, uid, wait if test.tries == core.config.probes else wait // 2)

    def _answer(self, uid: str, *, alive: bool) -> WitnessTest:
        test = self._open.pop(uid)
        self._core.disarm(Timer.PROBE, uid)
        if not alive:
            self._found_dead[uid] = test.subject.peer
            if len(self._found_dead) > MAX_FOUND:
                self._found_dead.popitem(last=False)
        for asker in test.askers:
            if asker in self._links.up:
                self._core.send(asker, Tested(test.subject, alive), uid)
        return test
