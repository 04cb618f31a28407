"""A member's side of a join: the owner of a gap (paper 004, section 3.3).

Departs from the paper (its published listing) in these points:

* Every gap between two brokers has one *owner*, the broker at its left (counter-clockwise) end, and
  only the owner inserts into it. Joins that race for one gap are thereby serialised without any
  agreement protocol, and an id stays reserved until its newcomer is there or has failed to come.
  The newcomer takes over the ids reserved to its right, as that part of the gap will be its own.
* Which gap is offered is the business of :mod:`ring.joining.gap_choice`: by default the widest of
  up to eight, or one farther away, instead of the wider of the contact's own two.
* The layer above may say in which arc the place is to be (:mod:`ring.joining.guide`).
* The request is passed on a bounded number of times, then refused.

The other side is :mod:`ring.joining.newcomer`.
"""

from __future__ import annotations

from msgspec.structs import replace

from ring.circle.chords import Chords
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import ROW, Neighbourhood
from ring.core import Core, Timer
from ring.geometry import FIRST_ID, SECOND_ID, between, clockwise, gap, midway
from ring.joining.gap_choice import Choice, Request, Sight, Verdict, choose
from ring.joining.guide import Guide, Lead, NoGuide, Way, is_place
from ring.joining.span import Span, choose_inside, nearest_before
from ring.wire.messages import (
    MAX_HOPS,
    MAX_NEIGHBOURS,
    JoinAccept,
    JoinRefuse,
    JoinRequest,
    Member,
)

FULL_ROW = 2 * ROW + 1  #: as long as a row can be, the broker itself included
GUIDED_HOPS = 128  #: of a request that is led: a few times the way over the ring


class GapOwner:
    """Offers a gap to newcomers, owns the one to the right, and keeps ids reserved."""

    def __init__(
        self, core: Core, links: RingLinks, neighbourhood: Neighbourhood, chords: Chords
    ) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._chords = chords
        self._reserved: dict[str, Member] = {}
        self.guide: Guide = NoGuide()

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
        elif request.asks and not Span(request.lo, request.hi).holds(core.member.ring_id):
            self._ask(request, Span(request.lo, request.hi))
        elif request.asks and is_place(request.lo, request.hi):
            self._refuse(request, "another broker stands at that place")
        elif request.asks or not (request.insert or request.lo != request.hi):
            self._follow(request, self.guide.lead(newcomer, request.wish, core.now))
        else:
            self._place(request)

    def inherit(self, reserved: tuple[Member, ...]) -> None:
        """Keep the ids that were reserved to the right of ours before we got it.

        The right part of the gap is ours now, and a newcomer that was promised an id in it may
        still come.
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

    def _follow(self, request: JoinRequest, lead: Lead) -> None:
        """Do what the guide says."""
        if lead.way is Way.ASK:
            asking = replace(request, lo=lead.lo, hi=lead.hi, asks=True)
            self._ask(asking, Span(lead.lo, lead.hi))
        elif lead.way in (Way.LATER, Way.NEVER):
            self._refuse(request, lead.reason, is_final=lead.way is Way.NEVER)
        else:
            self._place(replace(request, lo=lead.lo, hi=lead.hi, asks=False))

    def _ask(self, request: JoinRequest, span: Span) -> None:
        """Pass a request on to the first broker in an arc; there is none: the newcomer will be."""
        here, (sight, members) = self._core.member.ring_id, self._sight()
        right = sight.rights[0] if sight.rights else here
        left = (*sight.lefts, *reversed(sight.rights), here)[0]
        is_first = span.holds(here) and span.at(left) >= span.at(here)
        if is_first or request.hops >= GUIDED_HOPS:
            self._refuse(request, "the units there are being formed")
        elif not between(here, span.lo, right) and span.lo != right:
            nearest = nearest_before(span.lo, members)
            self._pass_on(request, members[nearest if nearest != here else right])
        elif span.holds(right):
            self._pass_on(request, members[right])
        elif any(span.holds(member.ring_id) for member in self._reserved.values()):
            self._refuse(request, "another broker is about to form that unit")
        else:
            self._give(request, span.lo)

    def _place(self, request: JoinRequest) -> None:
        sight, members = self._sight()
        choice = self._choose(request, sight)
        if choice.verdict is Verdict.INSERT:
            self._insert(request)
        elif choice.verdict is Verdict.FULL:
            # Where room is only promised, there is more once those have come, or have not.
            self._links.tell(request.newcomer, JoinRefuse(full=not self._reserved))
        else:
            is_asked = choice.verdict is Verdict.ASK
            self._pass_on(request, members[choice.ring_id], insert=is_asked)

    def _choose(self, request: JoinRequest, sight: Sight) -> Choice:
        config = self._core.config
        wanted = Request(request.newcomer.uid, request.hops, request.insert)
        if request.lo != request.hi:
            return choose_inside(sight, wanted, Span(request.lo, request.hi), GUIDED_HOPS)
        return choose(sight, wanted, config.gap_rule, config.join_hops, self._core.rng)

    def _pass_on(self, request: JoinRequest, member: Member, *, insert: bool = False) -> None:
        hops = min(request.hops + 1, MAX_HOPS)
        onward = replace(request, hops=hops, insert=insert)
        self._links.tell(member.peer, onward)

    def _turn_away(self, request: JoinRequest, judgement: Lead) -> None:
        """The guide does not let a newcomer in here: it goes where the guide says."""
        right, is_led = self._neighbourhood.right[:1], request.lo != request.hi
        is_over = request.hops >= GUIDED_HOPS
        if judgement.way is Way.INSIDE and not is_over:
            self._place(replace(request, lo=judgement.lo, hi=judgement.hi, hops=request.hops + 1))
        elif judgement.way is Way.OTHER and not is_over and right:
            if is_led and not Span(request.lo, request.hi).holds(right[0].ring_id):
                self._refuse(request, judgement.reason)
            else:
                self._pass_on(request, right[0], insert=True)
        else:
            self._refuse(request, judgement.reason, is_final=judgement.way is Way.NEVER)

    def _refuse(self, request: JoinRequest, reason: str, *, is_final: bool = False) -> None:
        self._links.tell(request.newcomer, JoinRefuse(full=is_final, reason=reason))

    def _sight(self) -> tuple[Sight, dict[int, Member]]:
        """Return what we see of the ring's gaps, and the members in it by ring id."""
        core, hood, links = self._core, self._neighbourhood, self._links
        row = hood.around()
        here = next(at for at, member in enumerate(row) if member.uid == core.peer.uid)
        chords = [
            member
            for member in self._chords.levels
            if links.leads_to(member) and member.uid not in hood.suspects
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

    def _insert(self, request: JoinRequest) -> None:
        here, end = self._core.member.ring_id, self._end()
        first_two = here == end and here == FIRST_ID
        place = SECOND_ID if first_two else midway(here, end)
        if request.lo != request.hi:
            inside = Span(request.lo, request.hi).middle(here, gap(here, end))
            assert inside is not None, "only where there is room"
            place = inside
        self._give(request, place)

    def _give(self, request: JoinRequest, place: int) -> None:
        newcomer, is_led = request.newcomer, request.lo != request.hi
        judgement = self.guide.judge(
            newcomer,
            place,
            is_led=is_led or bool(request.wish),
            is_aimed=request.asks and is_place(request.lo, request.hi),
        )
        if judgement is not None:
            self._turn_away(request, judgement)
            return
        member = Member(newcomer, place)
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
