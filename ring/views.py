"""Views: what brokers show each other of their neighbours, and what is made of it.

A view goes to whoever is newly linked, and, as it changes, to all ring neighbours; while somebody
who would stand in a pointer is still being linked, a change is shown a little later, once for all.
Heartbeats carry its version, so that one who has missed a change asks for it. What a view names are
candidates (:mod:`ring.neighbourhood`): none becomes a pointer without a link.
"""

from __future__ import annotations

from ring.core import Timer
from ring.messages import Heartbeat, Peers, PeersRequest, View, ViewRequest
from ring.parts import Parts

MAX_PEERS_TOLD = 64


class Views:
    """Takes others' views, and shows ours."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._shown = (-1, -1)  #: generation of links and version of our view when last shown

    def send(self, uid: str) -> None:
        """Show ``uid`` our view as it is now."""
        parts = self._parts
        parts.core.send(uid, parts.hood.view(), parts.repair.about)
        parts.links.up[uid].sent_version = parts.hood.version

    def send_changes(self) -> None:
        """Show our view to those ring neighbours that have an older one; soon, if it changes on."""
        core, links, hood = self._parts.core, self._parts.links, self._parts.hood
        if self._shown == (links.generation, hood.version):
            return
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

    def on_heartbeat(self, uid: str, beat: Heartbeat) -> None:
        view = self._parts.links.up[uid].view
        if view is None or view.version < beat.version:
            self._parts.core.send(uid, ViewRequest())

    def on_request(self, uid: str, request: ViewRequest) -> None:
        if self._parts.core.joined:
            self.send(uid)

    def on_view(self, uid: str, view: View) -> bool:
        """Take a neighbour's view; returns whether it has our ring id, and we are to give way."""
        parts = self._parts
        core, hood = parts.core, parts.hood
        link = parts.links.up[uid]
        if view.member.uid != uid or view.member.incarnation < link.peer.incarnation:
            return False
        if hood.is_dead(uid, view.member.incarnation, at_any_time=True):
            return False  # we have told it; it answers in a later life
        if view.member.incarnation > link.peer.incarnation:
            link.peer, link.view = view.member.peer, None  # it rejoined while the link was made
        if link.view is not None and view.version < link.view.version:
            return False
        parts.links.place(uid, view.member)
        link.view = view
        if uid in core.detours:
            parts.detours.conclude(view.member, core.detours[uid])  # its place was not known before
        hood.candidates.pop(uid, None)
        parts.owner.release(uid)
        if core.ring_id is None:
            return False
        if core.joined and view.member.ring_id == core.ring_id:
            return uid < core.peer.uid  # two with one id: the larger uid gives way
        hood.learn((*view.left, *view.right))
        if core.peer in [member.peer for member in (*view.left[:1], *view.right[:1])]:
            parts.detector.hasten_towards(view.member.ring_id, parts.repair.about)
        return False

    def on_peers_request(self, uid: str, request: PeersRequest) -> None:
        """Name some members to one who looks for the ring."""
        core = self._parts.core
        known = self._parts.hood.known() if core.joined else {}
        known.pop(uid, None)
        names = sorted(known)
        drawn = core.rng.sample(names, min(len(names), MAX_PEERS_TOLD - 1))
        ours = (core.member,) if core.joined else ()
        core.send(uid, Peers((*ours, *(known[name] for name in drawn))))
