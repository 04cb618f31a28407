"""From a suspicion to a ring without the dead (paper 004, sections 3.4 and 3.4.1).

A neighbour goes silent or its link breaks; witnesses test it (:mod:`ring.detection.suspicions`); a
verdict makes it dead; the dead goes out of every pointer, and its neighbours close the ring and
tell those who held chords to it (:mod:`ring.repair.closing`). A broker that is told of a death does
the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from overlay.machine import Closed
from ring.coordination.membership import Membership
from ring.coordination.parts import Parts
from ring.detection.suspicions import Death
from ring.detection.witness import WitnessTest
from ring.facts import Confirmed, Departed
from ring.wire.messages import Failed, Leaving, Member, Tested, TestNeighbour


class Deaths:
    """Brings suspicions, tests, verdicts and repairs together."""

    def __init__(self, parts: Parts, membership: Membership) -> None:
        self._parts = parts
        self._membership = membership

    # ── signs of life, and none ───────────────────────────────────────────────────────────────

    def on_heard(self, uid: str) -> None:
        """Any sign of life: clears suspicion, answers tests."""
        parts = self._parts
        if uid in parts.suspicions.open:
            parts.suspicions.on_heard(uid)
        test = parts.tests.on_alive(uid)
        for teller in test.tellers if test is not None else ():
            parts.tellers.on_refuted(teller)
        parts.dead_runs.on_alive(uid)

    def on_silent(self, uid: str) -> None:
        """A ring neighbour may have been silent for too long."""
        parts = self._parts
        subject = parts.detector.on_silent(uid)
        if subject is not None:
            leader = parts.suspicions.leader(subject, parts.tests.askers(uid))
            self.settle(parts.suspicions.suspect(subject, "silent", led_by=leader))

    def suspect(self, subject: Member, reason: str) -> None:
        """Have a neighbour tested."""
        self.settle(self._parts.suspicions.suspect(subject, reason))

    # ── tests and verdicts ────────────────────────────────────────────────────────────────────

    def on_test_neighbour(self, uid: str, question: TestNeighbour) -> None:
        """Test a broker for another that suspects it (paper 004, section 3.4.1)."""
        parts, subject = self._parts, question.subject
        if subject.uid == parts.core.peer.uid:
            return
        hood = parts.hood
        is_dead = hood.is_dead(subject.uid, subject.incarnation) and hood.is_witnessed(subject.uid)
        is_dead = is_dead or parts.links.is_over(subject)
        parts.tests.begin(uid, hood.known_as(subject), is_dead=is_dead)

    def on_probe_due(self, uid: str) -> None:
        """A ping of a test of ours was not answered in time."""
        self._on_test_failed(uid, self._parts.tests.on_due(uid))

    def on_unreachable(self, uid: str) -> None:
        """A broker tested for others cannot be linked."""
        self._on_test_failed(uid, self._parts.tests.on_failed(uid))

    def _on_test_failed(self, uid: str, failed: WitnessTest | None) -> None:
        """A test for others failed: we are cut off from the subject as well, if it lives."""
        parts = self._parts
        if failed is None:
            return
        subject = failed.subject
        if parts.hood.is_dead(subject.uid, subject.incarnation):
            return  # somebody else has told of it meanwhile
        if uid not in parts.hood.adjacent:
            if failed.notice is not None:
                self._believe(failed.tellers[0], failed.notice, witnessed=True)
            return
        found_by = leader = parts.suspicions.leader(subject, failed.looking)
        if leader is None and not parts.suspicions.is_beside(subject):
            found_by = failed.askers[0]
        self.settle(parts.suspicions.suspect(subject, "test failed", found_by, leader))

    def on_tested(self, uid: str, answer: Tested) -> None:
        """A witness says what it found; one that reaches the subject shows that a link failed."""
        parts = self._parts
        self.settle(parts.suspicions.on_tested(uid, answer))
        self._go_round(answer.subject.uid)

    def on_no_answer(self, uid: str) -> None:
        """The witnesses did not answer in time, or ``uid`` itself although one reaches it."""
        self.settle(self._parts.suspicions.on_no_answer(uid))
        self._go_round(uid)

    def _go_round(self, uid: str) -> None:
        """Find a way round a link that a witness has shown to have failed."""
        parts = self._parts
        case = parts.suspicions.open.get(uid)
        if case is not None and case.link_failed and case.reached_by is not None:
            parts.detours.begin(case.subject, case.reached_by)

    def on_witness_lost(self, uid: str) -> None:
        """A witness cannot be reached any more: another is asked, or what is known decides."""
        self._settle_all(self._parts.suspicions.on_witness_lost(uid))

    def on_neighbours_changed(self) -> None:
        """Others stand around us: open cases may have other witnesses, or be others' business."""
        self._settle_all(self._parts.suspicions.on_neighbours_changed())

    def settle(self, verdict: Death | None) -> None:
        """Confirm a death for which there is a verdict."""
        if verdict is None:
            return
        parts, (subject, witnesses) = self._parts, verdict
        if parts.hood.is_dead(subject.uid, subject.incarnation):
            return
        heir = None
        if subject.uid in parts.hood.adjacent:
            heir = parts.repair.begin(subject, witnesses)
        self._remove(subject, heir, witnessed=bool(witnesses))

    def _settle_all(self, verdicts: Iterable[Death]) -> None:
        for verdict in verdicts:
            self.settle(verdict)

    # ── what others say ───────────────────────────────────────────────────────────────────────

    def on_failed(self, uid: str, notice: Failed) -> None:
        """A broker tells of a confirmed death; news that is old changes nothing.

        It is believed where others bear witness, and there is a reason to trust the teller
        (:meth:`_is_trusted`). Else a broker that is linked to the subject tests it first, and a
        broker that suspects it itself goes on asking. A broker that is neither has nothing to lose,
        and notes it; the call of one that is to be a neighbour is a test already.
        """
        parts, core = self._parts, self._parts.core
        if notice.subject.uid == core.peer.uid:
            self._on_own_death(uid, notice)
            return
        subject = parts.hood.known_as(notice.subject)
        notice = replace(notice, subject=subject)
        is_trusted = bool(notice.witnesses) and self._is_trusted(uid, subject)
        says_more = is_trusted and not parts.hood.is_witnessed(subject.uid)
        if parts.hood.is_dead(subject.uid, subject.incarnation) and not says_more:
            return
        link = parts.links.up.get(subject.uid)
        if parts.links.is_over(subject):
            return  # old news: it is back already
        if is_trusted:
            self._believe(uid, notice, witnessed=True)
        elif parts.tellers.is_ignored(uid):
            return
        elif subject.uid in parts.suspicions.open:
            self.settle(parts.suspicions.on_lone_verdict(uid, subject.uid))
        elif link is not None:
            parts.tests.check(uid, notice)
        elif subject.uid not in parts.hood.candidates:
            self._believe(uid, notice, witnessed=False)

    def _on_own_death(self, uid: str, notice: Failed) -> None:
        """We are told that we died: a neighbour's word counts, as its ring has closed over us.

        Brokers of other rings say so in another way (:mod:`ring.joining.merge`).
        """
        parts, peer = self._parts, self._parts.core.peer
        if notice.subject.incarnation < peer.incarnation:
            return
        if parts.hood.is_attested(uid):
            self._membership.outlive(uid, witnessed=bool(notice.witnesses))
        else:
            parts.tellers.on_refuted(uid)

    def _is_trusted(self, teller: str, subject: Member) -> bool:
        """Say whether a death that ``teller`` tells of is believed without a test.

        It is if the teller is a neighbour of ours, and others show it at its place; or if the
        subject has failed a test of our own. Any other may be a stranger that has linked to us to
        say so, and has named the place as well.
        """
        parts = self._parts
        return (
            parts.hood.is_attested(teller)
            or parts.tests.has_found_dead(subject)
            or parts.suspicions.has_found_dead(subject.uid)
        )

    def _believe(self, uid: str, notice: Failed, *, witnessed: bool) -> None:
        parts, subject, core = self._parts, notice.subject, self._parts.core
        core.verdicts.note(Confirmed(subject, notice.witnesses), core.now)
        if subject.uid in parts.hood.adjacent:
            parts.repair.join_in(subject, notice.witnesses, notice.heir, uid)
        self._remove(subject, notice.heir, witnessed=witnessed)

    def on_leaving(self, uid: str, notice: Leaving) -> None:
        """A neighbour says good-bye; only its own word counts."""
        if notice.member.uid == uid:
            self.depart(notice.member)

    # ── off the ring ──────────────────────────────────────────────────────────────────────────

    def depart(self, member: Member) -> None:
        """A member left of its own will, or came back under a new incarnation."""
        if member.uid in self._parts.hood.adjacent:
            self._parts.core.notify(Departed(member))
        self._remove(member, None, witnessed=True)

    def _remove(self, member: Member, heir: Member | None, *, witnessed: bool) -> None:
        """Take a dead or departed broker out of every pointer.

        Its link says so to it where there are witnesses; else it is told when it is linked again.
        """
        parts, uid = self._parts, member.uid
        parts.suspicions.close(uid)
        parts.detours.forget(uid)
        parts.chord_queries.forget(uid)
        parts.links.damper.forget(uid)
        parts.hood.bury(member, witnessed=witnessed)
        parts.chords.on_dead(uid, heir)
        parts.links.close(uid, Closed.DECLARED_DEAD if witnessed else Closed.LOST)
        parts.duties.on_gone(member, witnessed=witnessed)
