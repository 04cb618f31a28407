"""What each member of a cluster says of its links, and which edges follow from that.

Brokers A and B are linked. A says the link costs bucket 3, B says bucket 5. Every member then
reckons with bucket 5, the worse one, A and B included: paths agree only if costs do. The link
counts only if both say it is there. If B has not said anything yet, A's word is enough, as a path
that fails is noticed and a path that nobody knows of is not.

Members share the table (:mod:`ges.telling.shared`): a row of each member, by its uid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ges.gateways.costs import LAST_BUCKET
from ges.telling.shared import Table
from ges.wire.gateway_messages import MAX_STATE_LINKS, LinkState, StateGate, StateLink
from ges.wire.telling_messages import RowVersion
from overlay.circular import following, is_after
from overlay.ids import LinkClass
from overlay.multigraph.weights import LinkKey

MAX_EARLY = 64  #: states kept that came before the row of the member


class Edge(NamedTuple):
    """A link of one class that counts, with the smaller uid first."""

    a: str
    b: str
    bucket: int  #: of the worse end


class LinkStates:
    """The states heard of, one a member."""

    def __init__(self, own_uid: str) -> None:
        self._own_uid = own_uid
        self.table: Table[LinkState] = Table(_origin_of, _version_of, MAX_EARLY)
        #: What each member says, by class of link and other end; and from which state that is.
        self._told: dict[str, tuple[LinkState, dict[LinkClass, dict[str, int]]]] = {}

    def bucket_told(self, key: LinkKey) -> int | None:
        """Return the bucket that this broker has told of a link of its own; None: none."""
        uid, link_class = key
        return self._links_of(self._own_uid, link_class).get(uid)

    def get(self, uid: str) -> LinkState | None:
        """Return what a member said last; None if nothing."""
        return self.table.get(uid)

    def follow(self, members: Iterable[str]) -> None:
        """These are the members now: what others said counts no more."""
        self.table.follow(members)
        known = self._told.items()
        self._told = {uid: each for uid, each in known if self.table.get(uid) is each[0]}

    def own(
        self,
        slot: int,
        incarnation: int,
        links: Iterable[StateLink],
        gates: Iterable[StateGate] = (),
        *,
        again: bool = False,
    ) -> LinkState | None:
        """Set this broker's own links; return what to tell all members, or None if it is known.

        Links beyond 256 are left out, dearest first. ``again``: others may have forgotten it.
        """
        most = sorted(links, key=lambda link: (link.bucket, link.uid, link.link_class))
        told = tuple(sorted(most[:MAX_STATE_LINKS], key=lambda link: (link.uid, link.link_class)))
        near = sorted(gates, key=lambda gate: (gate.bucket, gate.node, gate.link_class))
        open_to = tuple(
            sorted(near[:MAX_STATE_LINKS], key=lambda gate: (gate.node, gate.link_class))
        )
        known = self.table.get(self._own_uid)
        version = 1
        if known is not None:
            if is_after(known.incarnation, incarnation):
                incarnation = known.incarnation  # somebody spoke for us: ours counts after that
            had = known.slot, known.incarnation, known.links, known.gates
            if had == (slot, incarnation, told, open_to) and not again:
                return None
            version = following(known.version)
        state = LinkState(self._own_uid, slot, incarnation, version, told, open_to)
        self.table.take_row(state)
        return state

    def edges(self, link_class: LinkClass, members: Mapping[str, int]) -> Iterator[Edge]:
        """Yield each edge of a class between members (by uid, with their slots) once."""
        told = {uid: self._links_of(uid, link_class) for uid in members}
        for uid in members:
            for other, bucket in told[uid].items():
                if other not in members or other == uid:
                    continue
                has_said = self.table.get(other) is not None
                back = told[other].get(uid) if has_said else bucket
                if back is None or (uid > other and has_said):
                    continue  # the other end denies it, or yields it
                yield Edge(min(uid, other), max(uid, other), max(bucket, back))

    def _links_of(self, uid: str, link_class: LinkClass) -> Mapping[str, int]:
        state = self.table.get(uid)
        if state is None:
            return {}
        known = self._told.get(uid)
        if known is None or known[0] is not state:
            known = self._told[uid] = state, {each: {} for each in LinkClass}
            for link in state.links:
                known[1][link.link_class][link.uid] = min(link.bucket, LAST_BUCKET)
        return known[1][link_class]


def _origin_of(state: LinkState) -> str:
    return state.origin


def _version_of(state: LinkState) -> RowVersion:
    return RowVersion(state.incarnation, state.version, state.origin)
