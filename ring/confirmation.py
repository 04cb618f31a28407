"""Is it the broker or the link? (paper 004, section 3.4)

A broker that suspects a neighbour B asks C, the neighbour on B's other side, to test B. C probes B
and answers ``alive`` or ``failed``. If C stays silent it may be dead as well: the question goes on
to the next nearest broker known, up to ``config.witnesses`` of them, and then silence is the
verdict. Departs from the paper, which knows one witness.

Both roles are here: :class:`Suspicions` of the one who asks, :class:`Tests` of the witness.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from overlay.machine import Closed
from ring.core import Core, Timer
from ring.facts import LinkFailed, Refuted, Suspected
from ring.geometry import clockwise
from ring.links import Links
from ring.messages import Member, Ping, Tested, TestNeighbour
from ring.neighbourhood import Neighbourhood

MAX_TESTS = 256  #: tests made for others at once
RETEST_DOUBLINGS = 2  #: the pause before another test across a link that stays cut doubles so often


@dataclass(slots=True)
class Case:
    """One suspicion of ours."""

    subject: Member
    asked: list[str] = field(default_factory=list)  #: uids of witnesses, in order
    link_failed: bool = False  #: a witness reaches the subject; we try to do so again
    retests: int = 0  #: times that has failed, and witnesses were asked anew


class Suspicions:
    """What this broker suspects, and whom it has asked."""

    def __init__(self, core: Core, links: Links, neighbourhood: Neighbourhood) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self.open: dict[str, Case] = {}

    def suspect(self, subject: Member, reason: str) -> Member | None:
        """Open a case; returns the subject if it is decided at once, for nobody can be asked."""
        if subject.uid in self.open:
            return None
        core = self._core
        case = self.open[subject.uid] = Case(subject)
        self._neighbourhood.suspect(subject)
        core.notify(Suspected(subject, reason))
        if subject.uid in self._links.up:
            core.send(subject.uid, Ping(0), subject.uid)
        else:
            self._links.reopen(subject.peer, subject.uid)
        return self._ask_next(case)

    def on_heard(self, uid: str) -> None:
        """The subject itself gave a sign of life over its link."""
        case = self.open.pop(uid, None)
        if case is not None:
            self._core.disarm(Timer.TEST, uid)
            self._neighbourhood.clear_suspicion(uid)
            if not case.link_failed:
                self._core.notify(Refuted(case.subject))

    def on_tested(self, witness: str, answer: Tested) -> Member | None:
        """A witness answered; returns the subject if that confirms its death."""
        case = self.open.get(answer.subject.uid)
        if case is None or answer.subject.incarnation != case.subject.incarnation:
            return None
        if not answer.alive:
            return case.subject
        uid = case.subject.uid
        if not case.link_failed:
            case.link_failed = True
            self._core.notify(LinkFailed(case.subject, witness))
        self._core.disarm(Timer.TEST, uid)
        if uid in self._links.up:  # up, but nothing comes through
            self._links.close(uid, Closed.LOST)
        self._links.reopen(case.subject.peer, uid)
        return None

    def on_no_answer(self, uid: str) -> Member | None:
        """A witness did not answer in time; returns the subject if nobody is left to ask."""
        case = self.open.get(uid)
        return None if case is None else self._ask_next(case)

    def on_witness_lost(self, uid: str) -> list[Member]:
        """A broker cannot be reached: ask the next in its place, where it was to be a witness.

        Returns the subjects for which nobody is left to ask.
        """
        waiting = [
            case
            for subject, case in self.open.items()
            if case.asked[-1:] == [uid] and (Timer.TEST, subject) in self._core.timers
        ]
        decided = [self._ask_next(case) for case in waiting]
        return [subject for subject in decided if subject is not None]

    def on_refused(self, uid: str) -> Member | None:
        """The subject cannot be linked again. If a witness reached it before, ask anew.

        At once, for it may have died meanwhile; but while the link stays cut, and the subject
        alive, with a pause: a refusal takes no time, nor does a witness.
        """
        case = self.open.get(uid)
        if case is None or not case.link_failed:
            return None
        case.link_failed = False
        case.asked.clear()
        case.retests += 1
        if case.retests == 1:
            return self._ask_next(case)
        doublings = min(case.retests - 2, RETEST_DOUBLINGS)
        self._core.arm(Timer.TEST, uid, self._core.config.retry_ns << doublings)
        return None

    def close(self, uid: str) -> None:
        """The case is decided."""
        self.open.pop(uid, None)
        self._core.disarm(Timer.TEST, uid)

    def clear(self) -> None:
        for uid in list(self.open):
            self.close(uid)

    def _ask_next(self, case: Case) -> Member | None:
        core, subject = self._core, case.subject
        witness = None
        if len(case.asked) < core.config.witnesses:
            witness = next((w for w in self._witnesses(subject) if w.uid not in case.asked), None)
        if witness is None:
            return subject
        case.asked.append(witness.uid)
        # Twice the time the witness gives the subject: it may have to make a link first.
        core.arm(Timer.TEST, subject.uid, 2 * core.config.test_ns)
        self._links.tell(witness.peer, TestNeighbour(subject), subject.uid)
        return None

    def _witnesses(self, subject: Member) -> list[Member]:
        """Whom to ask: the neighbour on the subject's other side, then by nearness to it.

        Those under suspicion themselves come last.
        """
        here, there = self._core.member.ring_id, subject.ring_id
        rightward = clockwise(here, there) <= clockwise(there, here)
        known = [m for uid, m in self._neighbourhood.known().items() if uid != subject.uid]
        if not known:
            return []

        def beyond(member: Member) -> int:
            ids = (there, member.ring_id)
            return clockwise(*ids) if rightward else clockwise(*reversed(ids))

        def nearness(member: Member) -> int:
            ids = (there, member.ring_id)
            return min(clockwise(*ids), clockwise(*reversed(ids)))

        first = min(known, key=beyond)
        return sorted(known, key=lambda m: (m.uid in self.open, m is not first, nearness(m), m.uid))


class Tests:
    """Tests this broker makes as a witness for others."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    def __init__(self, core: Core, links: Links) -> None:
        self._core = core
        self._links = links
        self._askers: dict[str, tuple[Member, list[str]]] = {}

    def begin(self, asker: str, subject: Member, *, is_dead: bool) -> None:
        """``asker`` wants to know whether ``subject`` lives; a repeated question is one."""
        core, uid = self._core, subject.uid
        if is_dead:
            core.send(asker, Tested(subject, alive=False), uid)
            return
        if uid in self._askers:
            if asker not in self._askers[uid][1]:
                self._askers[uid][1].append(asker)
            return
        if len(self._askers) >= MAX_TESTS:
            return
        self._askers[uid] = (subject, [asker])
        core.arm(Timer.PROBE, uid, core.config.test_ns)
        if uid in self._links.up:
            core.send(uid, Ping(0), uid)
        else:
            self._links.open(subject.peer.url, uid, uid)

    def on_alive(self, uid: str) -> None:
        """The subject gave a sign of life."""
        if uid in self._askers:
            self._answer(uid, alive=True)

    def on_failed(self, uid: str) -> tuple[Member, list[str]] | None:
        """The subject did not answer in time, or could not be linked; tell those who asked."""
        return self._answer(uid, alive=False) if uid in self._askers else None

    def clear(self) -> None:
        for uid in self._askers:
            self._core.disarm(Timer.PROBE, uid)
        self._askers.clear()

    def _answer(self, uid: str, *, alive: bool) -> tuple[Member, list[str]]:
        subject, askers = self._askers.pop(uid)
        self._core.disarm(Timer.PROBE, uid)
        for asker in askers:
            if asker in self._links.up:
                self._core.send(asker, Tested(subject, alive), uid)
        return subject, askers
