"""Broken rules of who stands in which pointer (:mod:`ring.circle.neighbourhood`)."""

from __future__ import annotations

from typing import Any

from ring.circle.neighbourhood import Neighbourhood
from ring.coordination.views import Outcome, Views
from ring.facts import NeighboursChanged
from ring.wire.messages import Member
from tests.mutants.mutant import Chapter, Method, around, nothing

POINTERS = Chapter(first="joins")


def _with_candidates(original: Method) -> Method:
    def ordered(self: Neighbourhood) -> list[Member]:
        linked: list[Member] = original(self)
        known = {member.uid for member in linked}
        more = [member for uid, member in self.candidates.items() if uid not in known]
        return self._by_distance([*linked, *more])

    return ordered


POINTERS.add(
    "adopts-unchecked",
    "a member named in somebody's view becomes a pointer at once, without a link to it",
    around(Neighbourhood, "_ordered", _with_candidates),
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


POINTERS.add(
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


POINTERS.add(
    "view-has-one-version",
    "a changed view does not get a new version, so nobody hears of the change",
    around(Neighbourhood, "refresh", _silent_change),
    zave=True,
)


def _first_view(original: Method) -> Method:
    def on_view(self: Views, uid: str, view: Any) -> Outcome:  # noqa: ANN401
        known = self._parts.links.up[uid].view
        if known is not None and known.member == view.member:
            return Outcome.IGNORED
        outcome: Outcome = original(self, uid, view)
        return outcome

    return on_view


POINTERS.add(
    "newer-views-ignored",
    "of each neighbour only the first view is taken",
    around(Views, "on_view", _first_view),
)
POINTERS.add(
    "never-looks-again",
    "when a pointer falls vacant, the views at hand are not searched for who follows",
    (Neighbourhood, "learn_again", nothing),
    zave=True,
)


def _learn_as_newcomer(original: Method) -> Method:
    def learn(self: Neighbourhood, members: Any) -> None:  # noqa: ANN401
        if not self._core.joined:
            original(self, members)

    return learn


POINTERS.add(
    "join-not-reconciled",
    "who is on the ring learns nothing more from the views of its neighbours",
    around(Neighbourhood, "learn", _learn_as_newcomer),
    zave=True,
)
POINTERS.add(
    "no-tombstones",
    "a broker declared dead is not remembered as dead, and may be adopted again",
    (Neighbourhood, "is_dead", lambda self, uid, incarnation, **how: False),
    zave=True,
)
POINTERS.add(
    "suspects-lose-their-place",
    "a pointer is dropped on suspicion, before the death is confirmed",
    (Neighbourhood, "suspect", nothing),
)
