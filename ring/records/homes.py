"""Where two claims to one record meet that stand far apart: at the record's home.

After a partition a record has an owner on each side. As a rule these are near neighbours and find
each other out when the rings merge (:mod:`ring.records.replicas`). But while the rings are apart
brokers join and die in both, and each death may move the record on: in the end no common neighbour
knows both claims.

A claim keeps the place of the record's first owner, its *home*, through all take-overs. A broker
that owns records whose home is not its own place tells the member nearest to that, slowly and for
ever, by a route over links and chords (:class:`~ring.wire.record_messages.Claims`). There a claim
meets that of the first owner, if it is alive, and else those of the other heirs, which are
remembered for that. A message that arrives by a route is hearsay, so nobody loses a record by it:
the better claim's owner is asked to speak up (:class:`~ring.wire.record_messages.Dispute`), as
everywhere.

Where nobody ever died or handed over, nothing is sent. Departs from the paper (004, section 3.2),
which knows no partitions of the ring: the home is this project's.
"""

from __future__ import annotations

import msgspec

from overlay.ids import Peer
from ring.circle.greedy import nearer
from ring.circle.links import RingLinks
from ring.core import Core
from ring.geometry import RING_SIZE, clockwise
from ring.records.backups import Backups
from ring.records.claims import claim_of, outranks
from ring.records.replicas import Replicas
from ring.wire.messages import MAX_ROUTE_HOPS
from ring.wire.record_messages import MAX_ENTRIES, Claims, Dispute, Entry, Fence

MAX_HEARD = 4096  #: claims remembered; the one not heard for longest gives way
MAX_TOLD = 4  #: messages sent each time; who has more to tell goes on from there the next time


class Homes:
    """Tells our claims to the homes of our records, and compares those that arrive here."""

    def __init__(self, core: Core, links: RingLinks, backups: Backups, replicas: Replicas) -> None:
        self._core = core
        self._links = links
        self._backups = backups
        self._replicas = replicas
        self._heard: dict[str, tuple[Entry, Peer]] = {}  #: by key; heard last comes last
        self._told = (-1, "")  #: home and key that were told last

    def tell(self) -> None:
        """Tell the next of our claims to records with a home elsewhere."""
        core = self._core
        if not core.joined:
            return
        away = sorted(
            (own.entry.place, key)
            for key, own in self._backups.own.items()
            if own.entry.place != core.ring_id
        )
        later = [item for item in away if item > self._told]
        for _ in range(MAX_TOLD):
            if not later:
                self._told = (-1, "")
                return
            home = later[0][0]
            keys = [key for place, key in later[:MAX_ENTRIES] if place == home]
            self._told = later[len(keys) - 1]
            later = later[len(keys) :]
            entries = tuple(claim_of(self._backups.own[key].entry) for key in keys)
            self._pass_on(Claims(core.peer, entries, home, 0), without=None)

    def on_claims(self, uid: str, claims: Claims) -> None:
        """Pass claims on towards their home, or compare them if that is here."""
        if not self._core.joined or claims.owner.uid == self._core.peer.uid:
            return
        if not self._pass_on(msgspec.structs.replace(claims, hops=claims.hops + 1), without=uid):
            for entry in claims.entries:
                self._meet(entry, claims.owner)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _pass_on(self, claims: Claims, without: str | None) -> bool:
        """Send claims to the link nearest to their home; returns False if that is here."""
        here = self._core.member.ring_id
        onward = nearer(here, claims.home, self._links.up, without) or self._opposite(claims.home)
        if onward is None:
            return False
        if claims.hops < MAX_ROUTE_HOPS:
            self._core.send(onward, claims)
        return True

    def _opposite(self, home: int) -> str | None:
        """Return the uid of the member as far to the right of a home as we are to its left.

        Two are equally near to most homes whose owner is gone, as newcomers halve gaps. Claims that
        come from both sides are to meet, so those that end at the left one go on to the right one.
        """
        far = clockwise(self._core.member.ring_id, home)
        if not 0 < far < RING_SIZE // 2:
            return None  # we stand there, or to its right
        place = (home + far) % RING_SIZE
        return next(
            (
                uid
                for uid, link in self._links.up.items()
                if link.member is not None and link.member.ring_id == place and link.is_used
            ),
            None,
        )

    def _meet(self, entry: Entry, owner: Peer) -> None:
        """Compare a claim with all that is known here of the same record."""
        core, key = self._core, entry.key
        own = self._backups.own.get(key)
        if own is not None:
            if outranks(own.entry, core.peer.uid, entry, owner.uid):
                self._links.tell(owner, Fence((own.entry,)))
            else:
                self._links.tell(owner, Dispute(claim_of(own.entry), core.peer))
        replica = self._replicas.records.get(key)
        if replica is not None and replica.held.gone_at is None:
            self._settle(entry, owner, replica.entry, replica.held.peer)
        known = self._heard.pop(key, None)
        if known is not None:
            self._settle(entry, owner, *known)
        self._heard[key] = (entry, owner)  # the latest, not the best: that may be long gone
        if len(self._heard) > MAX_HEARD:
            del self._heard[next(iter(self._heard))]

    def _settle(self, entry: Entry, owner: Peer, other: Entry, rival: Peer) -> None:
        """Ask the better of two owners to speak up to the other one."""
        if owner.uid == rival.uid or rival.uid == self._core.peer.uid:
            return
        if outranks(entry, owner.uid, other, rival.uid):
            self._links.tell(owner, Dispute(claim_of(other), rival))
        else:
            self._links.tell(rival, Dispute(claim_of(entry), owner))
