"""Coming onto the ring, off it and back: this broker's own place (paper 004, sections 3.3 and 3.4).

Departs from the paper in what follows a mistake, which it does not treat: a broker that lives but
was declared dead comes back under the same uid in a later life, and one that has lost everybody
goes on as a ring of one and looks for the others (:mod:`ring.joining.merge`).
"""

from __future__ import annotations

import msgspec

from overlay.ids import Nanos
from overlay.machine import Closed
from ring.coordination.parts import Parts
from ring.coordination.views import SAME_PLACE, Outcome, Views
from ring.core import Timer
from ring.facts import Alone, Joined, Left, Reincarnated, Rejoining
from ring.geometry import FIRST_ID, RING_SIZE
from ring.joining.newcomer import Phase
from ring.wire.messages import HeldDead, JoinAccept, Leaving, PeersRequest, Place, View

SEEKS_IN_VAIN = 4  #: after that many a broker that lost its ring founds one
OLD_PEERS_ASKED = 8  #: by one that comes back, beside its seeds
TURNS = 8  #: who leaves draws its turn from that part of the time that a leave may take


class Membership:
    """Whether this broker is on the ring, and what it does to be there again."""

    def __init__(self, parts: Parts, views: Views) -> None:
        self._parts = parts
        self._views = views
        self._seeds: tuple[str, ...] = ()
        self._had_neighbours = False
        self._alone = False  #: and that has been told
        self._may_go = False  #: as one that leaves: it is our turn
        self.gone = False  #: it has left, and does nothing more

    # ── joining ───────────────────────────────────────────────────────────────────────────────

    def found(self, ring_id: int = FIRST_ID) -> None:
        """Be a ring of one."""
        self._parts.core.ring_id = ring_id
        self._become_member(contact=None, round_trip_ns=None)

    def join(self, seeds: tuple[str, ...], bootstrap: int, *, patient: bool) -> None:
        """Begin to look for a place through the brokers at these URLs, or for a founder."""
        own = self._parts.core.peer.url
        self._parts.newcomer.founding.begin(seeds, bootstrap)
        self._seeds = tuple(url for url in seeds if url != own)
        self._parts.newcomer.begin(self._seeds, patient=patient)

    def reseed(self, seeds: tuple[str, ...]) -> None:
        """Look for the ring, or for parts of it that are cut off, at these URLs from now on."""
        own, before = self._parts.core.peer.url, self._seeds
        self._seeds = tuple(url for url in seeds if url != own)
        if self._parts.core.joined:
            self._parts.merge.knock_at(tuple(url for url in self._seeds if url not in before))
        else:
            self._parts.newcomer.reseed(seeds, self._seeds)

    def on_peers_request(self, uid: str, request: PeersRequest) -> None:
        """Another looks for the ring: name members to it, or say that we are on none."""
        if not self._parts.core.joined:
            self._parts.newcomer.on_asked(uid, request)
        self._views.on_peers_request(uid, request)

    def on_accept(self, uid: str, accept: JoinAccept) -> None:
        """An owner has given us an id: keep what it had reserved in our part of the gap."""
        parts = self._parts
        if parts.newcomer.on_accept(accept):
            parts.owner.inherit(accept.reserved)
            for other, link in parts.links.up.items():
                if link.member is not None:
                    parts.hood.candidates.pop(other, None)

    def on_late(self) -> None:
        """Go on trying; but one who was on a ring, and finds none, is alone and goes on serving.

        Else brokers that lost their places at the same time would wait for one another forever.
        So would those that start, but for the one whose turn it is to found. Its place is drawn:
        rings that a cut has parted are to have no places in common when they meet.
        """
        newcomer = self._parts.newcomer
        if self._had_neighbours and newcomer.in_vain >= SEEKS_IN_VAIN:
            newcomer.finish()
            self.found()
        elif newcomer.founds:
            newcomer.finish()
            self.found(self._parts.core.rng.randrange(RING_SIZE))
            self._parts.merge.arm(0)
        elif newcomer.phase is not Phase.LINKING or not self._join_round():
            newcomer.on_late()

    def take_place(self) -> bool:
        """Become a member if a place was given to us and its neighbours are linked."""
        newcomer = self._parts.newcomer
        if newcomer.phase is not Phase.LINKING or not newcomer.linked:
            return False
        if self._is_taken():
            newcomer.on_taken()
            return False
        contact, round_trip = newcomer.contact, newcomer.round_trip_ns
        newcomer.finish()
        self._become_member(contact, round_trip)
        return True

    def _is_taken(self) -> bool:
        """Others name somebody who stands at our place, and it may be so."""
        here, hood = self._parts.core.ring_id, self._parts.hood
        return any(member.ring_id == here for member in hood.candidates.values())

    def _join_round(self) -> bool:
        """Take the place with those neighbours that answer, and look for ways to the others.

        Else a newcomer would never join beside a broker that all others reach, but not itself.
        """
        parts = self._parts
        wanted = parts.hood.nearest_wanted()
        missing = [member for uid, member in wanted.items() if uid not in parts.links.up]
        for member in missing:
            parts.detours.begin(member)
            parts.hood.shun(member.uid)
        return len(missing) < len(wanted)

    def _become_member(self, contact: str | None, round_trip_ns: Nanos | None) -> None:
        parts, core = self._parts, self._parts.core
        core.joined = True
        parts.newcomer.on_ring()
        self._alone = False
        parts.newcomer.founding.end()
        core.notify(Joined(core.member, contact, round_trip_ns))
        parts.chords.start()
        parts.merge.arm()
        for uid in parts.links.up:
            self._views.send(uid)
        parts.duties.reclaimer.begin()

    # ── coming back ───────────────────────────────────────────────────────────────────────────

    def on_view(self, uid: str, view: View) -> None:
        """A broker shows its view; where it has our ring id, the larger uid joins anew."""
        if self._views.on_view(uid, view) is Outcome.CLASH:
            self._give_way()
        self._parts.newcomer.on_founded(uid)

    def on_place(self, uid: str, place: Place) -> None:
        """A broker names its place; what is said of :meth:`on_view` holds for it.

        A newcomer to whom an owner that died had promised the same place asks for another.
        """
        newcomer, core = self._parts.newcomer, self._parts.core
        if newcomer.phase is Phase.LINKING and place.member.ring_id == core.ring_id:
            newcomer.on_taken()
        if self._views.on_place(uid, place.member) is Outcome.CLASH:
            self._give_way()

    def _give_way(self) -> None:
        """Another broker stands at our ring id: join anew."""
        self._parts.tellers.on_refuted(SAME_PLACE)
        self._rejoin("another broker has the same ring id")

    def on_held_dead(self, uid: str, notice: HeldDead) -> None:
        """Somebody holds a life of ours for dead: outlive it, or show that this is a later one."""
        core = self._parts.core
        if notice.incarnation >= core.peer.incarnation:
            self.outlive(uid, witnessed=notice.witnessed)
        elif core.joined:
            self._views.send(uid)

    def outlive(self, holder: str, *, witnessed: bool) -> None:
        """The linked broker ``holder`` holds us for dead: go on in a later life.

        A neighbour has closed the ring over us: we come back as a newcomer. To all others we are
        members of another ring, and stay where we are; see :mod:`ring.joining.merge`. A neighbour
        is one that others show beside us: what it says itself shows nothing. We stay as well
        where nobody bears witness: the holder was cut off, and the ring has closed over it, if over
        anybody. One that says so again and again is no member of another ring.
        """
        parts = self._parts
        core, hood = parts.core, parts.hood
        is_neighbour = core.joined and hood.is_attested(holder)
        is_alone = core.joined and not hood.left
        if not core.joined and parts.newcomer.phase is Phase.IDLE:
            return
        if (is_neighbour and witnessed) or is_alone:
            self._rejoin("held for dead by another broker")
            return
        if parts.tellers.is_ignored(holder):
            return
        if not is_neighbour:
            parts.tellers.on_refuted(holder)
        if not core.joined:
            self._rejoin("held for dead by another broker")
        else:
            core.peer = msgspec.structs.replace(core.peer, incarnation=core.peer.incarnation + 1)
            hood.version += 1
            core.notify(Reincarnated(core.member, holder))
            if holder in parts.links.up:
                self._views.send(holder)
            if witnessed:
                hood.forget_lone_verdicts()
                parts.duties.on_cut_off()
                parts.merge.stabilise()

    def move(self, reason: str) -> None:
        """Leave this place, and come back as a newcomer at another one."""
        if self._parts.core.joined and self._parts.hood.adjacent:
            self._rejoin(reason)

    def _rejoin(self, reason: str) -> None:
        """Come back under the same uid with a larger incarnation."""
        parts, core = self._parts, self._parts.core
        if parts.duties.backups.leaving:
            self.go()  # what it has not handed over yet is taken over from its backups
            return
        core.peer = msgspec.structs.replace(core.peer, incarnation=core.peer.incarnation + 1)
        core.notify(Rejoining(core.peer.incarnation, reason))
        parts.duties.on_rejoining()
        parts.hood.clear()
        known = [peer.url for peer in reversed(parts.hood.remembered.values())]
        core.joined, core.ring_id = False, None
        parts.detector.clear()
        parts.suspicions.clear()
        parts.tests.clear()
        parts.link_backups.clear()
        parts.repair.clear()
        parts.chords.clear()
        # Before the searches: that these end now says nothing of chords.
        parts.chord_queries.clear()
        parts.routing.clear()
        parts.dead_runs.clear()
        parts.owner.clear()
        parts.detours.clear()
        parts.links.close_all(Closed.LEAVING)
        core.timers.clear()
        parts.newcomer.finish()
        parts.newcomer.begin(tuple(known[:OLD_PEERS_ASKED]) + self._seeds, patient=True)

    # ── leaving ───────────────────────────────────────────────────────────────────────────────

    def draw_turn(self) -> Nanos:
        """Return how long to stay when leaving, so that not all who leave go at one moment.

        Those that stay could else have lost everybody they knew. Nobody waits for one that has no
        neighbours.
        """
        core = self._parts.core
        if not core.joined or not self._parts.hood.adjacent:
            return 0
        return core.rng.randrange(core.config.leave_ns // TURNS)

    def leave(self, turn: Nanos | None) -> None:
        """Hand over what we own, and go when it is our turn."""
        parts, core = self._parts, self._parts.core
        if not core.joined or not parts.hood.adjacent:
            self.go()
        elif not parts.duties.backups.leaving:
            parts.duties.leave()
            turn = self.draw_turn() if turn is None else turn
            if turn:
                core.arm(Timer.LEAVE, "", turn)
            else:
                self.on_leave_due()

    def on_leave_due(self) -> None:
        """It is our turn; or it was, and the time to hand over is up."""
        core = self._parts.core
        if self._may_go:
            self.go()
        else:
            self._may_go = True
            core.arm(Timer.LEAVE, "", core.config.leave_ns - core.config.leave_ns // TURNS)

    def go_if_done(self) -> None:
        """Go, if it is our turn and nothing is left to hand over."""
        if self._may_go and self._parts.duties.has_left:
            self.go()

    def go(self) -> None:
        """Say goodbye to all, and do nothing more."""
        parts, core = self._parts, self._parts.core
        if core.joined:
            for uid in parts.links.up:
                core.send(uid, Leaving(core.member))
        parts.links.close_all(Closed.LEAVING)
        core.timers.clear()
        core.joined = False
        self.gone = True
        core.notify(Left())

    # ── alone ─────────────────────────────────────────────────────────────────────────────────

    @property
    def is_alone(self) -> bool:
        """Whether all neighbours are lost and nobody is left to turn to."""
        hood = self._parts.hood
        joined = self._parts.core.joined
        return joined and self._had_neighbours and not hood.left and not hood.candidates

    def on_neighbours_changed(self) -> None:
        """Note that there are neighbours, so that being without any means that they were lost."""
        if self._parts.hood.left:
            self._had_neighbours = True
            self._parts.merge.on_neighbours_changed()

    def notice_solitude(self) -> None:
        """Tell once that nobody is left, and begin to knock."""
        parts, alone = self._parts, self.is_alone
        if alone and not self._alone:
            parts.hood.forget_verdicts()
            parts.core.notify(Alone())
            parts.merge.arm(0)
        self._alone = alone

    def on_knock_due(self) -> None:
        """Knock at a lost peer or a seed; see :class:`ring.joining.merge.Merge`.

        One that has founded a ring, and is still without neighbours, knocks as one that is alone.
        """
        hood = self._parts.hood
        alone = self.is_alone or not (hood.left or hood.candidates)
        self._parts.merge.on_knock_due(self._seeds, alone=alone)
