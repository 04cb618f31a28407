"""What each member of a cluster says of its links, and which edges follow from that.

Brokers A and B are linked. A says the link costs bucket 3, B says bucket 5. Every member then
reckons with bucket 5, the worse one, A and B included: paths agree only if costs do. The link
counts only if both say it is there. If B has not said anything yet, A's word is enough, as a path
that fails is noticed and a path that nobody knows of is not.

Members compare a digest of the table with their neighbours', and pull what differs. The digest is
the sum of a hash of each state, so it does not depend on the order in which states came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from ges.gateways.costs import LAST_BUCKET
from ges.wire.gateway_messages import MAX_STATE_LINKS, LinkState, StateGate, StateLink
from ges.wire.unit_messages import MAX_SLOTS
from overlay.circular import following, is_after
from overlay.ids import LinkClass
from overlay.multigraph.weights import LinkKey

#: States kept: a state may come before the row of the member, and outlive it for a while.
MAX_STATES = 2 * MAX_SLOTS

_encoder = msgspec.msgpack.Encoder()


class Edge(NamedTuple):
    """A link of one class that counts, with the smaller uid first."""

    a: str
    b: str
    bucket: int  #: of the worse end


class LinkStates:
    """The states heard of, one a member."""

    def __init__(self, own_uid: str) -> None:
        self._own_uid = own_uid
        self._states: dict[str, LinkState] = {}
        self._digests: dict[str, int] = {}
        self._told: dict[LinkClass, dict[str, dict[str, int]]] = {c: {} for c in LinkClass}
        self.digest = 0  #: of the whole table: 63 bits
        self.left_out = 0  #: states for which there was no room

    @property
    def states(self) -> tuple[LinkState, ...]:
        """All states, as told to a new member."""
        return tuple(self._states.values())

    def digest_of(self, uids: Iterable[str]) -> int:
        """Return the digest of the states of these members alone."""
        return sum(self._digests.get(uid, 0) for uid in uids) % 2**63

    def bucket_told(self, key: LinkKey) -> int | None:
        """Return the bucket that this broker has told of a link of its own; None: none."""
        uid, link_class = key
        return self._told[link_class].get(self._own_uid, {}).get(uid)

    def get(self, uid: str) -> LinkState | None:
        """Return what a member said last; None if nothing."""
        return self._states.get(uid)

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
        known = self._states.get(self._own_uid)
        version = 1
        if known is not None:
            if is_after(known.incarnation, incarnation):
                incarnation = known.incarnation  # somebody spoke for us: ours counts after that
            had = known.slot, known.incarnation, known.links, known.gates
            if had == (slot, incarnation, told, open_to) and not again:
                return None
            version = following(known.version)
        state = LinkState(self._own_uid, slot, incarnation, version, told, open_to)
        self._put(state)
        return state

    def learn(self, state: LinkState, members: Collection[str] = ()) -> bool:
        """Take what a member says; True if it was news, and is to be told on.

        News of this broker itself come from an earlier life; :meth:`own` puts them right. Where
        there is no room for it, the state of somebody who is none of the ``members`` goes.
        """
        known = self._states.get(state.origin)
        if known is not None:
            if not _is_newer(state, known):
                return False
        elif len(self._states) >= MAX_STATES:
            kept = {*members, self._own_uid}
            other = next((uid for uid in self._states if uid not in kept), None)
            if other is None or state.origin not in kept:
                self.left_out += 1
                return False
            self.forget(other)
        self._put(state)
        return True

    def forget(self, uid: str) -> None:
        """A member has died or left the cluster."""
        if self._states.pop(uid, None) is not None:
            self.digest = (self.digest - self._digests.pop(uid)) % 2**63
            for told in self._told.values():
                told.pop(uid, None)

    def edges(self, link_class: LinkClass, members: Mapping[str, int]) -> Iterator[Edge]:
        """Yield each edge of a class between members (by uid, with their slots) once."""
        told = self._told[link_class]
        for uid in members:
            for other, bucket in told.get(uid, {}).items():
                if other not in members or other == uid:
                    continue
                back = told[other].get(uid) if other in self._states else bucket
                if back is None or (uid > other and other in self._states):
                    continue  # the other end denies it, or yields it
                yield Edge(min(uid, other), max(uid, other), max(bucket, back))

    def _put(self, state: LinkState) -> None:
        self.forget(state.origin)
        uid = state.origin
        self._states[uid] = state
        for link_class, told in self._told.items():
            told[uid] = {
                link.uid: min(link.bucket, LAST_BUCKET)
                for link in state.links
                if link.link_class is link_class
            }
        hashed = hashlib.blake2b(_encoder.encode(state), digest_size=8).digest()
        self._digests[uid] = int.from_bytes(hashed) >> 1
        self.digest = (self.digest + self._digests[uid]) % 2**63


def _is_newer(state: LinkState, known: LinkState) -> bool:
    if state.incarnation != known.incarnation:
        return is_after(state.incarnation, known.incarnation)
    return is_after(state.version, known.version)
