"""What follows when a link comes up, goes down or cannot be made (paper 004, section 3.4.2).

The same for ways round failed links (:mod:`ring.repair.detours`), which stand in for links: to all
other parts, a detour that begins is a link that comes up.
"""

from __future__ import annotations

from overlay.ids import Peer
from overlay.machine import Closed, LinkDown, LinkRefused, LinkUp, Refused
from ring.circle.links import RingLink
from ring.coordination.deaths import Deaths
from ring.coordination.membership import Membership
from ring.coordination.parts import Parts
from ring.coordination.views import Views
from ring.facts import Detoured, DetourEnded
from ring.repair.detours import Handlers
from ring.wire.messages import Member

#: Ends of a link that say nothing about its quality.
_WITH_A_WORD = frozenset({Closed.UNWANTED, Closed.LEAVING, Closed.DECLARED_DEAD, Closed.REPLACED})
_NO_WAY_THERE = frozenset({Refused.UNREACHABLE, Refused.TIMEOUT})


class LinkEvents:
    """Tells the parts what becomes of links, and says which may be made."""

    def __init__(self, parts: Parts, views: Views, membership: Membership, deaths: Deaths) -> None:
        self._parts = parts
        self._views = views
        self._membership = membership
        self._deaths = deaths
        parts.detours.handlers = Handlers(
            self._admit_detour,
            self._on_detour_up,
            self._on_detour_down,
            self._on_no_detour,
            parts.detector.patience_ns,
        )

    # ── who may be linked ─────────────────────────────────────────────────────────────────────

    def admit(self, peer: Peer) -> Refused | None:
        """Say whether a link to ``peer`` may be made.

        It may to one held for dead, who only so learns of it; see :mod:`ring.joining.merge`.
        """
        core, links = self._parts.core, self._parts.links
        if peer.uid in core.detours:
            same_life = links.up[peer.uid].peer.incarnation == peer.incarnation
            if same_life and links.damper.held_ns(peer.uid, core.now):
                return Refused.DAMPED
        return self._admit_life(peer)

    def _admit_detour(self, peer: Peer) -> Refused | None:
        """Say whether ``peer`` may talk to us round our failed link; not after its death.

        If it is we alone who hold it for dead, it is told so over the way round.
        """
        hood = self._parts.hood
        is_dead = hood.is_dead(peer.uid, peer.incarnation, at_any_time=True)
        if is_dead and hood.is_witnessed(peer.uid):
            return Refused.DECLARED_DEAD
        return self._admit_life(peer)

    def _admit_life(self, peer: Peer) -> Refused | None:
        """Say whether this life of ``peer`` may be linked at all."""
        core = self._parts.core
        if self._membership.gone:
            return Refused.LEAVING
        if peer.uid == core.peer.uid:
            return Refused.SELF if peer.url == core.peer.url else Refused.UID_IN_USE
        link = self._parts.links.up.get(peer.uid)
        if link is not None and (
            peer.incarnation < link.peer.incarnation
            or (peer.incarnation == link.peer.incarnation and peer.url != link.peer.url)
        ):
            return Refused.UID_IN_USE
        return None

    # ── links ─────────────────────────────────────────────────────────────────────────────────

    def on_up(self, event: LinkUp) -> None:
        """A link is up: it ends the way round, and replaces one to an earlier life."""
        parts, core, uid = self._parts, self._parts.core, event.peer.uid
        old = parts.links.up.get(uid)
        parts.detours.forget(uid)
        parts.chord_queries.forget(uid)
        if core.detours.pop(uid, None) is not None:
            core.notify(DetourEnded(uid, restored=True))
        if old is not None:
            parts.chords.on_link_gone(uid)  # what was asked may have gone down with it
        before = self._placed(uid)
        if before is not None and before.incarnation < event.peer.incarnation:
            parts.links.on_down(uid)  # the new link has replaced it: there is nothing to close
            self._deaths.depart(before)  # it restarted; its old life is over
        core.verdicts.on_linked(uid, core.now)
        link = parts.links.on_up(event)
        parts.newcomer.founding.on_linked(event.url, event.peer)
        parts.merge.on_answered(uid, event.url)
        self._greet(link, old)

    def _placed(self, uid: str) -> Member | None:
        """Return ``uid`` as it stands in our pointers or chords, linked or not; None: nowhere."""
        parts = self._parts
        link, suspect = parts.links.up.get(uid), parts.hood.suspects.get(uid)
        if link is not None and link.member is not None:
            return link.member
        chord = next((member for member in parts.chords.levels if member.uid == uid), None)
        return suspect if suspect is not None else chord

    def _greet(self, link: RingLink, old: RingLink | None) -> None:
        """A link is up, in place of the old one if there was any: end what waited for it."""
        parts, uid = self._parts, link.peer.uid
        suspect = parts.hood.suspects.get(uid)
        if suspect is not None and link.member is None and suspect.peer == link.peer:
            parts.links.place(uid, suspect)  # the same life of it, so it has the same place
        parts.merge.on_linked(link.peer)
        parts.duties.on_link_up(link.peer)
        self._deaths.on_heard(uid)
        parts.suspicions.on_linked(link.peer, replaced=old is not None)
        parts.newcomer.on_up(uid)

    def on_down(self, event: LinkDown) -> None:
        """The link to ``event.uid`` is gone; nothing to do while there is a way round it."""
        if event.uid not in self._parts.core.detours:
            self._on_lost(event.uid, event.reason)
            self._parts.detours.on_link_gone(event.uid)

    def _on_lost(self, uid: str, reason: Closed) -> None:
        """A link, or the way round it, is gone."""
        parts, core, damper = self._parts, self._parts.core, self._parts.links.damper
        link = parts.links.on_down(uid)
        if link is None:
            return
        if reason not in _WITH_A_WORD and not link.detoured:
            damper.on_lost(uid, link.since, core.now)
        held = damper.held_ns(uid, core.now)
        if held and link.member is not None and uid in parts.chords.wanted:
            parts.chord_queries.begin(link.member, at_once=True)
        parts.chords.on_link_gone(uid)
        parts.routing.on_link_gone(uid)
        parts.tests.on_lost(uid)
        self._deaths.on_witness_lost(uid)
        if reason is Closed.DECLARED_DEAD:
            parts.hood.remember(link.peer)  # who declares others dead is on the ring
            self._membership.outlive(uid, witnessed=True)
        elif link.member is None:
            return
        elif reason is Closed.LEAVING:
            self._deaths.depart(link.member)
        elif uid in parts.hood.adjacent and reason is not Closed.UNWANTED:
            self._deaths.suspect(link.member, f"link {reason.value}")
        elif uid in parts.hood.adjacent:
            parts.hood.learn((link.member,))

    def on_refused(self, event: LinkRefused) -> None:
        """A link could not be made: a reason to go round it, to suspect its broker, or to wait."""
        parts, uid = self._parts, event.uid
        parts.links.on_refused(event)
        parts.newcomer.on_refused(event)
        if uid in parts.core.detours:
            return  # the way round it stands
        if uid is None or event.reason is Refused.DUPLICATE:
            return
        lives = event.reason is Refused.DAMPED  # so it says itself
        if lives:
            parts.tests.on_alive(uid)
        else:
            self._deaths.on_unreachable(uid)
        if uid in parts.hood.candidates and event.reason in _NO_WAY_THERE:
            parts.detours.begin(parts.hood.candidates[uid])
        parts.hood.shun(uid)
        parts.dead_runs.on_refused(uid)
        self._deaths.settle(parts.suspicions.on_refused(uid, lives=lives))
        self._deaths.on_witness_lost(uid)
        if uid in parts.chords.wanted and uid not in parts.hood.adjacent:
            self._on_chord_refused(uid, event.reason)

    def _on_chord_refused(self, uid: str, reason: Refused) -> None:
        parts = self._parts
        chord = next((member for member in parts.chords.levels if member.uid == uid), None)
        if chord is not None and reason in _NO_WAY_THERE:
            parts.chord_queries.begin(chord)
        else:
            parts.chords.on_dead(uid, None)

    # ── ways round failed links ───────────────────────────────────────────────────────────────

    def on_broken_detours(self) -> None:
        """End those detours whose first link is gone."""
        parts = self._parts
        for uid in parts.detours.broken() if parts.core.detours else ():
            self._on_detour_down(uid, Closed.LOST)

    def _on_detour_up(self, peer: Peer, member: Member | None, path: tuple[str, ...]) -> None:
        """Both ends talk along ``path`` from now on: they know that the link failed."""
        parts, core, uid = self._parts, self._parts.core, peer.uid
        old = parts.links.up.get(uid)
        is_new = uid not in core.detours
        if old is not None and old.peer.incarnation < peer.incarnation and old.member:
            core.detours.pop(uid, None)
            parts.links.close(uid, Closed.REPLACED)
            self._deaths.depart(old.member)
        link = parts.links.on_detour_up(peer, path)
        if old is not None and is_new:
            parts.chords.on_link_gone(uid)
        case = parts.suspicions.open.get(uid)
        member = link.member or member
        if member is not None:
            parts.detours.conclude(member, path)
        if case is not None:
            case.link_failed = True
        parts.chord_queries.forget(uid)
        core.notify(Detoured(uid, path))
        self._greet(link, old)

    def _on_detour_down(self, uid: str, reason: Closed) -> None:
        core = self._parts.core
        if core.detours.pop(uid, None) is not None:
            core.notify(DetourEnded(uid, restored=False))
            self._on_lost(uid, reason)
        elif reason is Closed.DECLARED_DEAD and core.joined:
            self._membership.outlive(uid, witnessed=True)

    def _on_no_detour(self, subject: Member) -> None:
        """Nobody can pass anything on to it now: only the link itself is left to be tried."""
        parts = self._parts
        parts.chord_queries.on_no_way(subject)
        if subject.uid in parts.suspicions.open:
            parts.links.reopen(subject.peer, subject.uid)
