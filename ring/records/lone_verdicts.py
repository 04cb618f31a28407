"""What was taken over for a death that nobody bore witness to (on paper 004, section 3.4.1).

A broker that was cut off holds its neighbours for dead, and takes over what they own under later
epochs; they lived on, and own it still (docs/decisions/0023). Once it learns that, it claims what
it took *below* their claims: so it keeps only what has no other owner. It learns it from others,
who held it for dead itself, or as one that it held for dead is linked to it in the same life. In a
ring of two nobody else is there to say who was cut off, or stood still: nothing is doubted there.

Departs from the paper (004), which knows no broker that is cut off and comes back.
"""

from __future__ import annotations

from overlay.ids import Peer
from ring.circle.neighbourhood import Neighbourhood
from ring.records.backups import Backups
from ring.records.claims import below
from ring.records.handover import Handover
from ring.records.replicas import Replicas


class LoneVerdicts:
    """Lowers the claims that rest on our own word alone, or takes them for settled."""

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        backups: Backups,
        replicas: Replicas,
        handover: Handover,
    ) -> None:
        self._neighbourhood = neighbourhood
        self._backups = backups
        self._replicas = replicas
        self._handover = handover

    def settle(self, uid: str) -> None:
        """Others bear witness that ``uid`` is dead, or it is gone by its own word."""
        for own in self._backups.own.values():
            if own.previous == uid:
                own.taken_from = None
        for held in self._replicas.estates:
            if held.uid == uid:
                held.is_lone = False

    def on_link_up(self, peer: Peer) -> None:
        """A life that we alone hold for dead is linked to us, so it lives."""
        hood = self._neighbourhood
        is_held_dead = hood.is_dead(peer.uid, peer.incarnation, at_any_time=True)
        if is_held_dead and not hood.is_witnessed(peer.uid) and hood.left:
            self.doubt(peer.uid)
            self._backups.pump_all()

    def doubt(self, uid: str | None = None) -> None:
        """Lower what we took from ``uid``, or from all, and what we may yet take."""
        for held in self._replicas.estates:
            if held.is_lone and uid in (None, held.uid):
                held.is_lone = False
                for key in held.keys:
                    replica = self._replicas.records[key]
                    replica.entry = below(replica.entry)
        for key, own in list(self._backups.own.items()):
            if own.taken_from is not None and uid in (None, own.previous):
                self._handover.pending.pop(key, None)  # it was offered under a later epoch still
                self._backups.lower(key, below(own.taken_from))
