"""Broken rules of :mod:`ring.joining.merge`: how rings that lost sight of each other become one."""

from __future__ import annotations

from ring.coordination.membership import Membership
from ring.joining.merge import Merge
from ring.wire.messages import View
from tests.mutants.mutant import Chapter, nothing

MERGE = Chapter(first="partitions")

MERGE.add(
    "never-knocks", "nobody looks for lost peers", (Membership, "on_knock_due", nothing), zave=True
)
MERGE.add(
    "strangers-not-met",
    "who is found by a knock does not look for the place of the one that knocks",
    (Merge, "on_meet", nothing),
)
MERGE.add(
    "strangers-not-adopted",
    "the member nearest to a stranger's place does not take it as a candidate",
    (Merge, "_land", nothing),
)
MERGE.add(
    "verdicts-not-told",
    "one who is linked by a broker that holds it dead does not hear of it",
    (Merge, "on_linked", nothing),
)
MERGE.add(
    "verdicts-not-heeded",
    "who hears that it is held for dead goes on in the same life",
    (Membership, "on_held_dead", nothing),
)


def _keep_id(self: Membership, uid: str, view: View) -> None:
    self._views.on_view(uid, view)


MERGE.add(
    "twins-stay",
    "of two with one ring id, none gives way",
    (Membership, "on_view", _keep_id),
    zave=True,
)
