"""A member's side of a join: the owner of a gap (paper 004, section 3.3).

Departs from the paper (its published listing) in these points:

* Every gap between two brokers has one *owner*, the broker at its left (counter-clockwise) end, and
  only the owner inserts into it. Joins that race for one gap are thereby serialised without any
  agreement protocol, and an id stays reserved until its newcomer is there or has failed to come.
  The newcomer takes over the ids reserved to its right, as that part of the gap will be its own.
* Which gap is offered is the business of :mod:`ring.joining.gap_choice`: by default the widest of
up to eight, or
  one farther away, instead of the wider of the contact's own two.
* The request is passed on a bounded number of times, then refused.

The other side is :mod:`ring.joining.newcomer`.
"""

from __future__ import annotations

from overlay.ids import Peer
from ring.circle.chords import Chords
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import ROW, Neighbourhood
from ring.core import Core, Timer
from ring.geometry import FIRST_ID, SECOND_ID, clockwise, gap, midway
from ring.joining.gap_choice import Request, Sight, Verdict, choose
from ring.wire.messages import (
    MAX_HOPS,
    MAX_NEIGHBOURS,
    JoinAccept,
    JoinRefuse,
    JoinRequest,
    Member,
)

FULL_ROW = 2 * ROW + 1  #: as long as a row can be, the broker itself included


class GapOwner:
    """Offers a gap to whoever asks, owns the one to the right, and keeps ids reserved."""

    def __init__(
        self, core: Core, links: RingLinks, neighbourhood: Neighbourhood, chords: Chords
    ) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._chords = chords
        self._reserved: dict[str, Member] = {}

    def on_request(self, sender: str, request: JoinRequest) -> None:
        """Insert the newcomer, or pass its request on; asking again changes nothing."""
        core = self._core
        newcomer = request.newcomer
        if not core.joined:
            self._links.tell(newcomer, JoinRefuse(full=False))
        elif newcomer.uid == core.peer.uid:
            return
        elif newcomer.uid in self._reserved and self._reserved[newcomer.uid].peer == newcomer:
            self._accept(self._reserved[newcomer.uid])
        else:
            self._place(request)

    def inherit(self, reserved: tuple[Member, ...]) -> None:
        """Keep the ids that were reserved to the right of ours before we got it.

        The right part of the gap is ours now, and who was promised an id in it may still come.
        """
        self.clear()
        for member in reserved:
            self._reserve(member)

    def release(self, uid: str) -> None:
        """The newcomer has arrived, or has not come in time."""
        self._reserved.pop(uid, None)
        self._core.disarm(Timer.RESERVED, uid)

    def clear(self) -> None:
        """Release all reserved ids: the gap is no longer ours."""
        for uid in list(self._reserved):
            self.release(uid)

    def _place(self, request: JoinRequest) -> None:
        core, newcomer = self._core, request.newcomer
        sight, members = self._sight()
        choice = choose(
            sight,
            Request(newcomer.uid, request.hops, request.insert),
            core.config.gap_rule,
            core.config.join_hops,
            core.rng,
        )
        if choice.verdict is Verdict.INSERT:
            self._insert(newcomer)
        elif choice.verdict is Verdict.FULL:
            # Where room is only promised, there is more once those have come, or have not.
            self._links.tell(newcomer, JoinRefuse(full=not self._reserved))
        else:
            hops = min(request.hops + 1, MAX_HOPS)
            onward = JoinRequest(newcomer, hops, insert=choice.verdict is Verdict.ASK)
            self._links.tell(members[choice.ring_id].peer, onward)

    def _sight(self) -> tuple[Sight, dict[int, Member]]:
        """Return what we see of the ring's gaps, and the members in it by ring id."""
        core, hood, links = self._core, self._neighbourhood, self._links
        row = hood.around()
        here = next(at for at, member in enumerate(row) if member.uid == core.peer.uid)
        chords = [
            member
            for member in self._chords.levels
            if member.uid in links.up and member.uid not in hood.suspects
        ]
        members = {member.ring_id: member for member in (*chords, *row)}
        ids = [member.ring_id for member in row]
        sight = Sight(
            here=core.member.ring_id,
            room=gap(core.member.ring_id, self._end()),
            lefts=ids[:here][::-1],
            rights=ids[here + 1 :],
            whole=len(row) < FULL_ROW and all(member.ring_id in ids for member in chords),
            chords=[member.ring_id for member in chords],
        )
        return sight, members

    def _end(self) -> int:
        """Return where the free part of our own gap ends: at the next id in use or reserved.

        Not simply at our right neighbour: for a moment that may be another with our own id, or a
        dead one whose id we were given.
        """
        core, hood = self._core, self._neighbourhood
        others = (*hood.right, *hood.left, *self._reserved.values())
        ends = [member.ring_id for member in others]
        here = core.member.ring_id
        return min(ends, key=lambda end: gap(here, end), default=here)

    def _insert(self, newcomer: Peer) -> None:
        here, end = self._core.member.ring_id, self._end()
        first_two = here == end and here == FIRST_ID
        member = Member(newcomer, SECOND_ID if first_two else midway(here, end))
        self._reserve(member)
        self._accept(member)

    def _reserve(self, member: Member) -> None:
        self._reserved[member.uid] = member
        self._core.arm(Timer.RESERVED, member.uid, 3 * self._core.config.join_ns)

    def _accept(self, member: Member) -> None:
        core = self._core
        here = core.member.ring_id
        others = [m for m in self._neighbourhood.around() if m.uid != core.peer.uid]
        beyond = sorted(
            (clockwise(here, other.ring_id), uid)
            for uid, other in self._reserved.items()
            if clockwise(here, other.ring_id) > clockwise(here, member.ring_id)
        )
        reserved = tuple(self._reserved[uid] for _, uid in beyond[:MAX_NEIGHBOURS])
        self._links.tell(
            member.peer,
            JoinAccept(member.ring_id, core.member, tuple(others[:MAX_NEIGHBOURS]), reserved),
        )
