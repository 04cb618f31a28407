"""Mutants of the ring protocol: each is one rule of it broken, applied at run time.

A mutant replaces a method of a class in ``ring``. Where that method is gone, or no longer has what
the mutant touches, applying or running it raises :class:`OutOfDate`: a mutant that breaks nothing
would count as proof of nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import msgspec

import ring.join
from overlay.machine import Closed
from ring.chords import Chords
from ring.confirmation import Suspicions, Tests
from ring.deaths import Deaths
from ring.detector import Detector
from ring.facts import Confirmed, NeighboursChanged
from ring.geometry import clockwise, gap, midway
from ring.join import GapOwner, Newcomer
from ring.link_backups import LinkBackups
from ring.link_events import LinkEvents
from ring.links import Links
from ring.membership import Membership
from ring.messages import JoinAccept, JoinRequest, Member, Tested
from ring.neighbourhood import Neighbourhood
from ring.node import RingNode
from ring.repair import Repair

Method = Callable[..., Any]


class OutOfDate(Exception):
    """The protocol has changed under a mutant, which no longer fits it."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken rule: where, and what stands there instead."""

    name: str
    what: str
    zave: bool  #: the like of one of the flaws P. Zave found in Chord
    patches: tuple[tuple[Any, str, Any], ...]  #: (class or module, attribute, what replaces it)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break the protocol for the time being; only for machines made meanwhile.

        Raises:
            OutOfDate: there is nothing to replace.
        """
        with ExitStack() as stack:
            for owner, attribute, new in self.patches:
                if attribute not in vars(owner):
                    raise OutOfDate(f"{self.name}: {owner.__name__}.{attribute} is gone")
                stack.enter_context(mock.patch.object(owner, attribute, new))
            yield


MUTANTS: list[Mutant] = []


def _mutant(name: str, what: str, *patches: tuple[Any, str, Any], zave: bool = False) -> None:
    MUTANTS.append(Mutant(name, what, zave, patches))


def _nothing(*args: object, **more: object) -> None:
    return None


def _around(owner: Any, attribute: str, change: Callable[[Method], Method]) -> tuple[Any, str, Any]:  # noqa: ANN401
    """Return the patch that puts ``change`` around a method."""
    original = vars(owner).get(attribute, _nothing)  # if it is gone, applying will say so
    return owner, attribute, change(original)


# ── pointers ──────────────────────────────────────────────────────────────────────────────────


def _with_candidates(original: Method) -> Method:
    def ordered(self: Neighbourhood) -> list[Member]:
        linked: list[Member] = original(self)
        known = {member.uid for member in linked}
        more = [member for uid, member in self.candidates.items() if uid not in known]
        return self._by_distance([*linked, *more])

    return ordered


_mutant(
    "adopts-unchecked",
    "a member named in somebody's view becomes a pointer at once, without a link to it",
    _around(Neighbourhood, "_ordered", _with_candidates),
    zave=True,
)


def _keep_seconds(self: Neighbourhood) -> bool:
    if not self._core.joined:
        return False
    ordered = self._ordered()
    right, left = tuple(ordered[:2]), tuple(reversed(ordered[-2:]))
    if len(self.right) == 2 and right[:1] == self.right[:1]:
        right = self.right
    if len(self.left) == 2 and left[:1] == self.left[:1]:
        left = self.left
    if (left, right) == (self.left, self.right):
        return False
    self.left, self.right = left, right
    self.version += 1
    self._core.notify(NeighboursChanged(left, right))
    return True


_mutant(
    "second-forgotten",
    "left-left and right-right stay as they are while left and right do",
    (Neighbourhood, "refresh", _keep_seconds),
    zave=True,
)


def _silent_change(original: Method) -> Method:
    def refresh(self: Neighbourhood) -> bool:
        changed: bool = original(self)
        self.version -= changed
        return changed

    return refresh


_mutant(
    "view-has-one-version",
    "a changed view does not get a new version, so nobody hears of the change",
    _around(Neighbourhood, "refresh", _silent_change),
    zave=True,
)


def _first_view(original: Method) -> Method:
    def place(self: Links, uid: str, view: Any) -> None:  # noqa: ANN401
        if self.up[uid].view is None:
            original(self, uid, view)

    return place


_mutant(
    "newer-views-ignored",
    "of each neighbour only the first view is taken",
    _around(Links, "place", _first_view),
)
_mutant(
    "never-looks-again",
    "when a pointer falls vacant, the views at hand are not searched for who follows",
    (Neighbourhood, "learn_again", _nothing),
    zave=True,
)


def _learn_as_newcomer(original: Method) -> Method:
    def learn(self: Neighbourhood, members: Any) -> None:  # noqa: ANN401
        if not self._core.joined:
            original(self, members)

    return learn


_mutant(
    "join-not-reconciled",
    "who is on the ring learns nothing more from the views of its neighbours",
    _around(Neighbourhood, "learn", _learn_as_newcomer),
    zave=True,
)
_mutant(
    "no-tombstones",
    "a broker declared dead is not remembered as dead, and may be adopted again",
    (Neighbourhood, "is_dead", lambda self, uid, incarnation, **how: False),
    zave=True,
)
_mutant(
    "suspects-lose-their-place",
    "a pointer is dropped on suspicion, before the death is confirmed",
    (Neighbourhood, "suspect", _nothing),
)

# ── joins ─────────────────────────────────────────────────────────────────────────────────────


def _insert_anywhere(self: GapOwner, sender: str, request: JoinRequest) -> None:
    core, hood = self.core, self.neighbourhood
    if not core.joined or request.newcomer.uid == core.peer.uid:
        return
    here = core.member.ring_id
    left, right = (side[0].ring_id if side else here for side in (hood.left, hood.right))
    a, b = (left, here) if gap(left, here) > gap(here, right) else (here, right)
    others = tuple(m for m in hood.known().values() if m.uid != request.newcomer.uid)[:16]
    self.links.tell(request.newcomer, JoinAccept(midway(a, b), core.member, others))


_mutant(
    "no-gap-owner",
    "whoever is asked inserts the newcomer into either gap beside it",
    (GapOwner, "on_request", _insert_anywhere),
    zave=True,
)


def _reserve_nothing(original: Method) -> Method:
    def on_request(self: GapOwner, sender: str, request: JoinRequest) -> None:
        original(self, sender, request)
        self.clear()

    return on_request


_mutant(
    "ids-not-reserved",
    "an id is not kept for the newcomer it was given to",
    _around(GapOwner, "on_request", _reserve_nothing),
)
_mutant(
    "gap-not-halved",
    "the newcomer gets the id right beside the owner's",
    (ring.join, "midway", lambda a, b: (a + 1) % 2**32),
)
_mutant(
    "joins-without-links",
    "a newcomer holds itself for a member before it has links to its neighbours",
    (Newcomer, "linked", property(lambda self: True)),
    zave=True,
)
_mutant(
    "gives-up-joining",
    "a step of a join that takes too long is not started again",
    (Newcomer, "on_late", _nothing),
)

# ── suspicion ─────────────────────────────────────────────────────────────────────────────────


_mutant("no-heartbeats", "nobody sends heartbeats", (Detector, "on_heartbeat_due", _nothing))
_mutant("never-suspects", "silence is no reason for suspicion", (Detector, "on_silent", _nothing))
_mutant(
    "no-self-doubt",
    "a broker that stood still holds those for silent whom it did not listen to",
    (Detector, "forgive_pause", _nothing),
)
_mutant(
    "suspicion-is-death",
    "nobody is asked to test a suspected neighbour",
    (Suspicions, "_ask", lambda self, case: (case.subject, ())),
)


def _one_witness(original: Method) -> Method:
    def ask(self: Suspicions, case: Any) -> Any:  # noqa: ANN401
        return (case.subject, tuple(case.failed)) if case.asked else original(self, case)

    return ask


_mutant(
    "one-round-of-witnesses",
    "when a witness does not answer, no other one is asked in its place",
    _around(Suspicions, "_ask", _one_witness),
)
_mutant(
    "no-refutation",
    "a sign of life does not clear a suspicion",
    (Suspicions, "on_heard", _nothing),
)
_mutant(
    "answer-ignored",
    "what the witness answers is not heard",
    (Suspicions, "on_tested", _nothing),
)


def _answer(*, alive: bool) -> Method:
    def begin(self: Tests, asker: str, subject: Member, *, is_dead: bool) -> None:
        self._core.send(asker, Tested(subject, alive), subject.uid)

    return begin


_mutant(
    "witness-says-alive",
    "a witness answers that the subject lives, without a test",
    (Tests, "begin", _answer(alive=True)),
)
_mutant(
    "witness-says-dead",
    "a witness answers that the subject is dead, without a test",
    (Tests, "begin", _answer(alive=False)),
)
_mutant("witness-silent", "a witness does not test and does not answer", (Tests, "begin", _nothing))
_mutant(
    "test-without-end",
    "a witness waits for ever for the subject's answer",
    (Tests, "on_due", _nothing),
    (Tests, "on_failed", _nothing),
)

# ── deaths, and lives that go on ──────────────────────────────────────────────────────────────


def _tell_nobody(self: Repair, subject: Member, witnesses: tuple[str, ...]) -> None:
    self._core.notify(Confirmed(subject, witnesses))
    self._unrepaired[subject.uid] = subject


_mutant(
    "death-not-told",
    "who confirms a death tells nobody of it",
    (Repair, "begin", _tell_nobody),
)


def _only_remove(self: Deaths, uid: str, notice: Any) -> None:  # noqa: ANN401
    if notice.subject.uid != self._parts.core.peer.uid:
        self._remove(notice.subject, notice.heir)


_mutant(
    "notice-not-passed-on",
    "who is told of a death does not tell its own neighbours, and does not divide the dead",
    (Deaths, "on_failed", _only_remove),
)


def _only_about_self(original: Method) -> Method:
    def on_failed(self: Deaths, uid: str, notice: Any) -> None:  # noqa: ANN401
        if notice.subject.uid == self._parts.core.peer.uid:
            original(self, uid, notice)

    return on_failed


_mutant(
    "notice-ignored",
    "who is told of another's death does not believe it",
    _around(Deaths, "on_failed", _only_about_self),
)
_mutant("no-backups", "no links are backed up", (LinkBackups, "exchange", _nothing))
_mutant(
    "holders-not-told",
    "those who hold chords to the dead are not told",
    (Repair, "_divide", _nothing),
)
_mutant(
    "accused-stays",
    "who is told that it was declared dead does not come back as a newcomer",
    (Membership, "_rejoin", _nothing),
)


def _same_life(original: Method) -> Method:
    def rejoin(self: Membership, reason: str) -> None:
        core = self._parts.core
        life = core.peer.incarnation
        original(self, reason)
        core.peer = msgspec.structs.replace(core.peer, incarnation=life)

    return rejoin


_mutant(
    "same-incarnation",
    "who was declared dead comes back under the incarnation that is dead",
    _around(Membership, "_rejoin", _same_life),
)
_mutant(
    "admits-the-dead",
    "a link is made with anybody, dead or not",
    (RingNode, "admit", _nothing),
)


def _departure_is_loss(original: Method) -> Method:
    def on_lost(self: LinkEvents, uid: str, reason: Closed) -> None:
        original(self, uid, Closed.LOST if reason is Closed.LEAVING else reason)

    return on_lost


_mutant(
    "goodbyes-not-heard",
    "a broker that leaves is treated like one that is lost",
    (Deaths, "on_leaving", _nothing),
    _around(LinkEvents, "_on_lost", _departure_is_loss),
)
_mutant(
    "departed-stay",
    "who left, or came back under a new incarnation, is not taken out of the pointers",
    (Deaths, "depart", _nothing),
)
_mutant(
    "never-knocks", "who is alone does not look for others", (Membership, "on_knock_due", _nothing)
)
_mutant("links-never-closed", "links that nobody wants stay", (Links, "on_linger", _nothing))
_mutant("links-not-retried", "a link that failed is not tried again", (Links, "on_retry", _nothing))

# ── chords ────────────────────────────────────────────────────────────────────────────────────


def _any_other(self: Chords, level: int, member: Member) -> bool:
    return member.uid != self._core.peer.uid


_mutant(
    "chords-have-no-end",
    "a chord may lead round past this broker again",
    (Chords, "_extends", _any_other),
)
_mutant(
    "chords-not-refreshed",
    "chords are never asked for again",
    (Chords, "on_refresh_due", lambda self: self.start()),
)
_mutant("dead-chords-kept", "a chord to the dead stays", (Chords, "on_dead", _nothing))


def _one_way_less(self: Chords, uid: str, query: Any) -> None:  # noqa: ANN401
    here = self._core.member.ring_id
    nearest = sorted(self.levels, key=lambda m: clockwise(here, m.ring_id))[:1]
    level = query.level
    self._core.send(uid, type(self._answer(level))(level, nearest[0] if nearest else None))


_mutant(
    "chords-do-not-double",
    "every question for a chord is answered with right-right",
    (Chords, "on_query", _one_way_less),
)
