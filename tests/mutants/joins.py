"""Broken rules of joining (:mod:`ring.joining.newcomer`, :mod:`ring.joining.gap_owner`) and of
founding (:mod:`ring.joining.founding`).
"""

from __future__ import annotations

import ring.joining.gap_owner
from ring.geometry import gap, midway
from ring.joining.founding import Founding, Seed
from ring.joining.gap_owner import GapOwner
from ring.joining.newcomer import Newcomer
from ring.wire.messages import MAX_NEIGHBOURS, JoinAccept, JoinRequest
from tests.mutants.mutant import Chapter, Method, around, nothing

JOINS = Chapter(first="joins")


def _insert_anywhere(self: GapOwner, sender: str, request: JoinRequest) -> None:
    core, hood = self._core, self._neighbourhood
    if not core.joined or request.newcomer.uid == core.peer.uid:
        return
    here = core.member.ring_id
    left, right = (side[0].ring_id if side else here for side in (hood.left, hood.right))
    a, b = (left, here) if gap(left, here) > gap(here, right) else (here, right)
    known = tuple(m for m in hood.known().values() if m.uid != request.newcomer.uid)
    others = known[:MAX_NEIGHBOURS]
    self._links.tell(request.newcomer, JoinAccept(midway(a, b), core.member, others))


JOINS.add(
    "no-gap-owner",
    "whoever is asked inserts the newcomer into either gap beside it",
    (GapOwner, "on_request", _insert_anywhere),
    zave=True,
)


def _reservenothing(original: Method) -> Method:
    def on_request(self: GapOwner, sender: str, request: JoinRequest) -> None:
        original(self, sender, request)
        self.clear()

    return on_request


JOINS.add(
    "ids-not-reserved",
    "an id is not kept for the newcomer it was given to",
    around(GapOwner, "on_request", _reservenothing),
)
JOINS.add(
    "gap-not-halved",
    "the newcomer gets the id right beside the owner's",
    (ring.joining.gap_owner, "midway", lambda a, b: (a + 1) % 2**32),
)
JOINS.add(
    "joins-without-links",
    "a newcomer holds itself for a member before it has links to its neighbours",
    (Newcomer, "linked", property(lambda self: True)),
    zave=True,
)
JOINS.add(
    "gives-up-joining",
    "a step of a join that takes too long is not started again",
    (Newcomer, "on_late", nothing),
)


def _unnamed(original: Method) -> Method:
    def begin(self: Founding, seeds: tuple[str, ...], least: int) -> None:
        original(self, seeds, least)
        self.may_found = True

    return begin


JOINS.add(
    "never-founds",
    "of brokers that start with one list none founds a ring",
    (Founding, "is_due", property(lambda self: False)),
)
JOINS.add(
    "founds-out-of-turn",
    "a broker founds a ring although others that start may found, or have not answered",
    (Founding, "_stance", lambda self, uid: Seed.AFTER),
)
JOINS.add(
    "founds-unnamed",
    "a broker founds a ring although it stands in no list",
    around(Founding, "begin", _unnamed),
)
