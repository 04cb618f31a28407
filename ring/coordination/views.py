"""Views: what brokers show each other of their neighbours, and what is made of it.

A new link is told our place: with a view if it is a ring neighbour, else alone, unless a notice has
named it. A view goes to all ring neighbours, as it changes; while somebody who would stand in a
pointer is still being linked, a change is shown a little later, once for all. Heartbeats carry its
version, so that one who has missed a change asks for it. The brokers that a view names are
candidates (:mod:`ring.circle.neighbourhood`): none becomes a pointer without a link.
"""

from __future__ import annotations

from enum import Enum, auto

from ring.coordination.parts import Parts
from ring.core import Timer
from ring.wire.messages import (
    MAX_PEERS,
    Heartbeat,
    Member,
    Peers,
    PeersRequest,
    Place,
    View,
    ViewRequest,
)

SAME_PLACE = ""  #: no broker's uid: all that have said that they stand where we do


class Outcome(Enum):
    """What has become of a view or place that a broker showed."""

    IGNORED = auto()  #: it is old, or not to be believed
    ACCEPTED = auto()
    CLASH = auto()  #: accepted, and it stands at our ring id: we are to give way


class Views:
    """Takes others' views, and shows ours."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._shown = (-1, -1)  #: generation of links and version of our view when last shown

    def send(self, uid: str) -> None:
        """Show ``uid`` our view as it is now."""
        parts = self._parts
        link = parts.links.up[uid]
        parts.core.send(uid, parts.hood.view(), parts.repair.about)
        link.sent_version, link.introduced = parts.hood.version, True

    def send_changes(self) -> None:
        """Show our view to those ring neighbours that have an older one; soon, if it changes on."""
        core, links, hood = self._parts.core, self._parts.links, self._parts.hood
        if self._shown == (links.generation, hood.version):
            return
        self._introduce()
        if hood.candidates:
            if (Timer.SHOW, "") not in core.timers:
                core.arm(Timer.SHOW, "", core.config.answer_ns)
            return
        self.show()

    def show(self) -> None:
        """Show our view now to those ring neighbours that have an older one."""
        core, links, hood = self._parts.core, self._parts.links, self._parts.hood
        core.disarm(Timer.SHOW)
        if core.joined:
            for uid, link in links.up.items():
                if link.on_ring and link.sent_version < hood.version:
                    self.send(uid)
            self._shown = (links.generation, hood.version)

    def normalise(self) -> None:
        """Set what makes no difference to what follows to one value, for exploration of states."""
        generation, version = self._shown
        self._shown = (generation, int(version == self._parts.hood.version))

    def _introduce(self) -> None:
        """Say on new links where we stand, and what we see if they are ring links."""
        parts = self._parts
        for uid, link in parts.links.up.items():
            if link.introduced:
                continue
            if link.on_ring:
                self.send(uid)
            else:
                parts.core.send(uid, Place(parts.core.member), parts.repair.about)
                link.introduced = True

    def on_heartbeat(self, uid: str, beat: Heartbeat) -> None:
        """Ask for the sender's view if the one held is older than the heartbeat says."""
        view = self._parts.links.up[uid].view
        if view is None or view.version < beat.version:
            self._parts.core.send(uid, ViewRequest())

    def on_request(self, uid: str, request: ViewRequest) -> None:
        """Show our view to a broker that asks for it."""
        if self._parts.core.joined:
            self.send(uid)

    def on_view(self, uid: str, view: View) -> Outcome:
        """Take the place and the view of ``uid``; whom it names are candidates for our pointers.

        Where it names us as its nearest, those that we see between the two are asked for a sign of
        life; so is who is linked in an earlier life than it names: nobody watches most links. An
        older view than the one held is ignored.
        """
        parts = self._parts
        core, link = parts.core, parts.links.up[uid]
        is_same_life = link.peer.incarnation == view.member.incarnation
        # One shown over an earlier link may have been an impostor's: its version does not count.
        known = link.view if link.viewed else None
        if is_same_life and known is not None and view.version < known.version:
            return Outcome.IGNORED
        outcome = self.on_place(uid, view.member)
        if outcome is Outcome.IGNORED:
            return outcome
        link.view, link.viewed = view, True
        if outcome is Outcome.CLASH or core.ring_id is None:
            return outcome
        for member in (*view.left, *view.right):
            other = parts.links.up.get(member.uid)
            if other is None or other is link:
                continue
            other.shown = member
            if other.peer.incarnation < member.incarnation:
                parts.dead_runs.doubt(member.uid, member.uid)  # our link leads to an earlier life
        parts.hood.learn((*view.left, *view.right))
        if core.peer in [member.peer for member in (*view.left[:1], *view.right[:1])]:
            parts.detector.hasten_towards(view.member.ring_id, parts.repair.about, denied=True)
        return outcome

    def on_place(self, uid: str, member: Member) -> Outcome:
        """Note where ``uid`` stands; it is no candidate now, nor a newcomer that an id is kept for.

        Ignored if it is another broker's, of an older life, or of one that we hold for dead; or if
        it is our own place, and we have given way often already: strangers say so in turn.
        """
        parts = self._parts
        core, hood, link = parts.core, parts.hood, parts.links.up[uid]
        if member.uid != uid or member.incarnation < link.peer.incarnation:
            return Outcome.IGNORED
        if hood.is_dead(uid, member.incarnation, at_any_time=True):
            return Outcome.IGNORED  # we have told it; it answers in a later life
        clashes = core.joined and member.ring_id == core.ring_id and uid < core.peer.uid
        if clashes and parts.tellers.is_ignored(SAME_PLACE):
            return Outcome.IGNORED
        if member.incarnation > link.peer.incarnation:
            link.peer, link.view = member.peer, None  # it rejoined while the link was made
        parts.links.place(uid, member)
        if uid in core.detours:
            parts.detours.conclude(member, core.detours[uid])  # its place was not known before
        hood.candidates.pop(uid, None)
        parts.owner.release(uid)
        return Outcome.CLASH if clashes else Outcome.ACCEPTED  # the larger uid gives way

    def on_peers_request(self, uid: str, request: PeersRequest) -> None:
        """Name some members to one who looks for the ring."""
        core = self._parts.core
        known = self._parts.hood.known() if core.joined else {}
        known.pop(uid, None)
        names = sorted(known)
        drawn = core.rng.sample(names, min(len(names), MAX_PEERS - 1))
        ours = (core.member,) if core.joined else ()
        stance = self._parts.newcomer.stance
        core.send(uid, Peers((*ours, *(known[name] for name in drawn)), stance))
