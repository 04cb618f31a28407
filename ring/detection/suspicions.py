"""Is it the broker or the link? (paper 004, section 3.4)

A broker that suspects a neighbour B asks C, the neighbour on B's other side, to test B. C probes B
and answers ``alive`` or ``failed``. Departs from the paper, which knows one witness:

* C may be cut off from B as well, though B lives (M. Freedman et al., "Non-transitive connectivity
  and DHTs", 2005, saw that for 2.3 % of pairs). A second witness is therefore asked at the same
  time, one that is linked to both if there is any, and ``config.agreeing`` must say ``failed``.
* A witness that stays silent may be dead: the question goes on to the next nearest broker known, up
  to ``config.witnesses`` of them; what is known when nobody is left to ask is the verdict. In a run
  of dead neighbours many are silent, and waiting for one after the other would take seconds. So a
  witness is pinged as it is asked: one that gives no sign of life within a round trip is *doubted*,
  and another is asked beside it. So is one that must be linked first. Whatever a doubted witness
  says in the end still counts; what makes a verdict is as before.
* Links to witnesses may break as well: one that is linked anew is asked anew.
* Where a link broke and nobody can be asked, our own call is the witness: in a small ring all links
  may break at the same moment, though nobody is dead. A subject that answers that the link flaps
  lives; it is called again.
* A witness that reaches a subject whose link to us is up does not decide at once: both may have
  asked one that stood still, and its answer to us come next.
* A and C investigate. Second neighbours, and a witness whose own test failed, wait for their word
  and ask only if it does not come: A or C may be dead too.
* One of the two will do. C that misses B itself while it tests B for A does not ask as well: A
  leads, and C waits for its word, but asks at once if A is lost or suspected meanwhile.

This is the role of the one who asks; that of the witness is in :mod:`ring.detection.witness`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from overlay.ids import Nanos, Peer
from overlay.machine import Closed
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core, Timer
from ring.detection.detector import Detector
from ring.detection.local_health import LocalHealth
from ring.detection.witness import in_order
from ring.facts import LinkFailed, Refuted, Suspected
from ring.wire.messages import Member, Ping, Tested, TestNeighbour

RETEST_DOUBLINGS = 2  #: the pause before another test across a link that stays cut doubles so often


@dataclass(slots=True)
class Case:
    """One suspicion of ours."""

    subject: Member
    asked: list[str] = field(default_factory=list)  #: uids of witnesses, in order
    awaited: list[str] = field(default_factory=list)  #: of them, who may still answer
    doubted: list[str] = field(default_factory=list)  #: of these, who may be dead as well
    asked_at: Nanos = 0  #: when the latest of them were
    until: Nanos = 0  #: when all of them have had their time
    failed: list[str] = field(default_factory=list)  #: who found that the subject is dead
    led_by: str | None = None  #: uid of one who asks others already; we wait for its word
    reached_by: str | None = None  #: uid of a witness that reaches the subject
    link_failed: bool = False  #: so we hold the link for failed, and try to make it again
    retests: int = 0  #: times that has failed, and witnesses were asked anew
    since: Nanos = 0  #: when it was suspected
    patience_ends: Nanos = 0  #: our own call may be waited for until then
    is_called: bool = False  #: nobody could be asked, so our own call decides
    is_tested: bool = False  #: pings of ours were not answered, or our call was refused

    @property
    def lives(self) -> bool:
        """Whether somebody reaches the subject, so that nobody else need be asked."""
        return self.reached_by is not None or self.link_failed


Death = tuple[Member, tuple[str, ...]]  #: a verdict: who is dead, and the witnesses of it


class Suspicions:
    """What this broker suspects, and whom it has asked."""

    def __init__(
        self,
        core: Core,
        links: RingLinks,
        neighbourhood: Neighbourhood,
        detector: Detector,
        health: LocalHealth,
    ) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._detector = detector
        self._health = health
        self.open: dict[str, Case] = {}

    def suspect(
        self,
        subject: Member,
        reason: str,
        found_by: str | None = None,
        led_by: str | None = None,
    ) -> Death | None:
        """Open a case; returns a verdict if it is decided at once, for nobody can be asked.

        ``found_by`` is a witness that finds the same already, ``led_by`` one that asks others too.
        """
        if subject.uid in self.open:
            return None
        core = self._core
        case = self.open[subject.uid] = Case(
            subject, led_by=led_by, since=core.now, patience_ends=core.now + self._patience
        )
        self._neighbourhood.suspect(subject)
        core.notify(Suspected(subject, reason))
        case.is_tested = subject.uid in self._links.up  # so it was not the link that broke
        self._give_up(subject.uid)
        if subject.uid in self._links.up:
            core.send(subject.uid, Ping(0), subject.uid)
        else:
            self._links.reopen(subject.peer, subject.uid)
        if found_by is not None:
            case.asked.append(found_by)
            case.failed.append(found_by)
        waits = found_by is not None or led_by is not None
        if waits or not self.is_beside(subject):
            if not waits and subject.uid in self._links.up:
                self._hint(subject)
            core.arm(Timer.TEST, subject.uid, self._patience)
            return None
        return self._ask(case)

    def on_heard(self, uid: str) -> None:
        """The subject itself gave a sign of life over its link."""
        case = self.open.pop(uid, None)
        if case is not None:
            self._core.disarm(Timer.TEST, uid)
            self._neighbourhood.clear_suspicion(uid)
            if not case.link_failed:
                self._health.worse()
                self._core.notify(Refuted(case.subject))

    def on_tested(self, witness: str, answer: Tested) -> Death | None:
        """A witness answered; returns the verdict if that makes one."""
        case = self.open.get(answer.subject.uid)
        if case is None or answer.subject.incarnation != case.subject.incarnation:
            return None
        if witness not in case.asked or witness in case.failed:
            return None
        self._health.better()
        if case.lives:
            return None
        if not answer.alive:
            case.failed.append(witness)
            if witness in case.awaited:
                case.awaited.remove(witness)
            return self._ask(case)
        uid = case.subject.uid
        case.awaited.clear()
        case.reached_by = witness
        if uid in self._links.up:
            self._core.arm(Timer.TEST, uid, self._detector.patience_ns(uid))
        else:
            self._conclude(case, witness)
        return None

    def _conclude(self, case: Case, witness: str) -> None:
        """It is the link that failed."""
        uid = case.subject.uid
        case.link_failed = True
        self._core.notify(LinkFailed(case.subject, witness))
        self._core.disarm(Timer.TEST, uid)
        if uid in self._links.up:  # up, but nothing comes through
            self._links.close(uid, Closed.LOST)
        self._links.reopen(case.subject.peer, uid)

    def on_no_answer(self, uid: str) -> Death | None:
        """Witnesses did not answer in time; returns the verdict if nobody is left to ask."""
        case = self.open.get(uid)
        if case is None:
            return None
        if case.reached_by is not None and not case.link_failed:
            self._conclude(case, case.reached_by)
            return None
        if self._core.now < case.until:
            return self._doubt(case)
        for witness in case.awaited:
            self._health.worse()
            self._detector.hasten(witness, uid)
        case.awaited.clear()
        return self._ask(case)

    def on_witness_lost(self, uid: str) -> list[Death]:
        """A broker cannot be reached: ask the next in its place, where it was to be a witness.

        Returns the verdicts on those for whom nobody is left to ask.
        """
        waiting = [case for case in self.open.values() if self._lose(case, uid)]
        decided = [self._ask(case) for case in waiting]
        return [verdict for verdict in decided if verdict is not None]

    def on_linked(self, peer: Peer, *, replaced: bool) -> None:
        """A broker is linked anew: ask it again what it has not answered as a witness.

        The question, or the answer, may have gone down with the old link; ``replaced``: that one
        had not been noticed to be gone. Not for ever, as links may flap.
        """
        uid = peer.uid
        for case in self.open.values():
            if uid not in case.asked or uid in case.failed or case.led_by or case.lives:
                continue
            if self._core.now < case.patience_ends and (replaced or uid not in case.awaited):
                for those in (case.asked, case.awaited, case.doubted):
                    if uid in those:
                        those.remove(uid)
                self._ask_one(case, peer)

    def on_refused(self, uid: str, *, lives: bool = False) -> Death | None:
        """The subject cannot be linked again. If a witness reached it before, ask anew.

        At once, for it may have died meanwhile; but while the link stays cut, and the subject
        alive, with a pause: a refusal takes no time, nor does a witness. ``lives``: it says itself
        that it wants no link now, so where our own call is to decide it is called again.
        """
        case = self.open.get(uid)
        if case is None:
            return None
        case.is_tested = not lives
        if case.is_called and not case.awaited and not case.link_failed:
            if not lives:
                return self._ask(case)
            case.patience_ends = self._core.now + self._patience
            self._core.arm(Timer.TEST, uid, self._patience)
            return None
        if not case.link_failed:
            return None
        case.link_failed = False
        case.reached_by = None
        case.asked.clear()
        case.failed.clear()
        case.retests += 1
        if case.retests == 1:
            return self._ask(case)
        doublings = min(case.retests - 2, RETEST_DOUBLINGS)
        self._core.arm(Timer.TEST, uid, self._core.config.retry_ns << doublings)
        return None

    def on_lone_verdict(self, teller: str, uid: str) -> Death | None:
        """A broker holds ``uid`` for dead alone: if its word was waited for, we ask ourselves."""
        case = self.open.get(uid)
        waits = case is not None and case.led_by == teller and self.is_beside(case.subject)
        return self._ask(case) if case is not None and waits else None

    def has_found_dead(self, uid: str) -> bool:
        """Say whether a suspected broker has failed a test of our own, and no witness reaches it.

        That its link broke is no test.
        """
        case = self.open.get(uid)
        return case is not None and case.is_tested and not case.lives

    def on_neighbours_changed(self) -> list[Death]:
        """Ask about those who stand beside us now, and whom others were to ask about before."""
        decided: list[Death | None] = []
        for case in list(self.open.values()):
            if case.led_by is None:
                waits = not case.asked and not case.link_failed and not case.retests
            else:
                waits = case.led_by not in self._links.up
            if waits and self.is_beside(case.subject):
                decided.append(self._ask(case))
        return [verdict for verdict in decided if verdict is not None]

    def close(self, uid: str) -> None:
        """The case is decided."""
        self.open.pop(uid, None)
        self._core.disarm(Timer.TEST, uid)

    def clear(self) -> None:
        """Close all cases without a verdict: this broker is off the ring."""
        for uid in list(self.open):
            self.close(uid)

    def is_beside(self, subject: Member) -> bool:
        """Say whether nobody between us and the subject will look into it.

        A suspected broker will not, nor a broker that does not see it: a chord of ours may stand in
        a pointer behind a run of dead that our neighbour has not closed yet.
        """
        hood = self._neighbourhood
        for side in (hood.left, hood.right):
            if subject.uid not in [member.uid for member in side]:
                continue
            near = side[0].uid
            link = self._links.up.get(near)
            if near == subject.uid or near in self.open:
                return True
            view = link.view if link is not None else None
            seen = (*view.left, *view.right) if view is not None else (subject,)
            if all(member.uid != subject.uid for member in seen):
                return True
        return False

    def leader(self, subject: Member, askers: Iterable[str]) -> str | None:
        """Return which of those that ask us to test ``subject`` asks others too; None: unknown.

        It is one whom the subject showed beside itself. A broker farther off has only pointed us to
        it, and waits for us.
        """
        link = self._links.up.get(subject.uid)
        if link is None or link.view is None:
            return None
        beside = {member.uid for member in (*link.view.left[:1], *link.view.right[:1])}
        return next((uid for uid in askers if uid in beside), None)

    @property
    def _patience(self) -> Nanos:
        """How long witnesses are waited for: they may have to make a link first."""
        config = self._core.config
        return self._health.stretch(config.test_ns + config.answer_max_ns)

    def _hint(self, subject: Member) -> None:
        """Let the neighbour that stands beside a silent one look after it.

        If the monitor died with it, that neighbour may not have missed it yet.
        """
        hood = self._neighbourhood
        for side in (hood.left, hood.right):
            if any(member.uid == subject.uid for member in side[1:]):
                self._core.send(side[0].uid, TestNeighbour(subject), subject.uid)

    def _give_up(self, witness: str) -> None:
        """A witness is suspected now: ask others in its place where it was awaited."""
        for case in list(self.open.values()):
            if self._lose(case, witness) and self._ask(case) is not None:
                # Not decided here: we may be in the middle of opening another case.
                case.until = 0
                self._core.arm(Timer.TEST, case.subject.uid, 0)

    def _lose(self, case: Case, uid: str) -> bool:
        """Wait no longer for ``uid``; say whether others are to be asked in its place."""
        if case.led_by == uid and self.is_beside(case.subject):
            return True
        if uid not in case.awaited:
            return False
        case.awaited.remove(uid)
        return True

    def _doubt(self, case: Case) -> Death | None:
        """Witnesses had the time of a ping: ask others beside those not heard since."""
        for witness in case.awaited:
            link = self._links.up.get(witness)
            if witness not in case.doubted and (link is None or link.heard_at <= case.asked_at):
                case.doubted.append(witness)
        verdict = self._ask(case)
        uid = case.subject.uid
        if verdict is None and (Timer.TEST, uid) not in self._core.timers:
            self._core.timers.set((Timer.TEST, uid), case.until)
        return verdict

    def _ask(self, case: Case) -> Death | None:
        """Ask as many as are needed to agree; return the verdict once they do, or nobody is left.

        Of brokers that may only be cut off from us, those we are linked to are asked first.
        """
        core, subject = self._core, case.subject
        case.led_by = None
        if len(case.failed) >= core.config.agreeing:
            return subject, tuple(case.failed)
        if case.lives:
            return None
        sure = [witness for witness in case.awaited if witness not in case.doubted]
        wanted = core.config.agreeing - len(case.failed) - len(sure)
        if wanted > 0 and len(case.asked) < core.config.witnesses:
            for witness in self._witnesses_for(subject):
                if wanted == 0 or len(case.asked) == core.config.witnesses:
                    break
                if witness.uid not in case.asked:
                    self._ask_one(case, witness.peer)
                    wanted -= witness.uid not in case.doubted
        if case.awaited or (not case.failed and self._call_subject(case)):
            return None
        return subject, tuple(case.failed)

    def _call_subject(self, case: Case) -> bool:
        """Nobody is left to ask: call the subject if its link broke; say whether to wait for it.

        If nobody was there who might be, it is the only other broker of the ring as far as we know.
        Nothing but a broken link shows that it is dead, and nobody waits for a repair: so a sign of
        life is waited for longer, and it is called again and again meanwhile.
        """
        core, subject = self._core, case.subject
        is_linked = subject.uid in self._links.up
        is_only_other = not case.asked and not self._witnesses_for(subject)
        until = case.patience_ends
        if is_only_other:
            until = max(until, case.since + core.config.alone_ns)
        if core.now >= until or (is_linked and not is_only_other):
            return False
        url = subject.peer.url
        if not is_linked and not case.is_called:
            case.is_called = True
            self._links.damper.release(subject.uid)
            self._links.open(url, subject.uid, subject.uid)
        elif is_only_other and not is_linked and not self._links.is_opening(url):
            core.arm(Timer.RETRY, url, core.jitter(core.config.retry_ns))  # not ever more rarely
        core.arm(Timer.TEST, subject.uid, until - core.now)
        return is_only_other or self._links.is_opening(url)

    def _ask_one(self, case: Case, witness: Peer) -> None:
        """Ask one witness, and whether it lives itself."""
        core, uid, subject = self._core, witness.uid, case.subject
        case.asked.append(uid)
        case.awaited.append(uid)
        is_silent = subject.uid in self._links.up  # and its neighbours may be so too
        wait = self._patience
        case.asked_at, case.until = core.now, core.now + wait
        if is_silent and uid not in self._links.up:
            case.doubted.append(uid)
        self._links.tell(witness, TestNeighbour(subject), subject.uid)
        if is_silent:
            self._detector.ask(uid, subject.uid)
            wait = self._detector.answer_ns(uid)
        core.arm(Timer.TEST, subject.uid, wait)

    def _witnesses_for(self, subject: Member) -> list[Member]:
        """Return all that may be asked about ``subject``, the best witness first."""
        known = [m for uid, m in self._neighbourhood.known().items() if uid != subject.uid]
        here = self._core.member.ring_id
        return in_order(subject, here, known, linked=self._links.up, suspected=self.open)
