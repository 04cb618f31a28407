"""Whom each broker is linked to, kept by its left and right neighbour (paper 004, section 3.2).

When it dies they divide that list between them, and tell each on it [divide-neighbour].

A list is sent whole over a new link, and as differences after that. The differences cost no
messages of their own, or each change of a link would be heard of by two brokers more: to a
neighbour that hears our heartbeats they go in place of one, to the other with the answer to its
next ping. A quiet neighbour pings every 24 to 36 periods; what is older than that is sent alone, as
one that hears events from us does not ping. So of the two the left neighbour knows first whom we
are linked to, and tells those that are new to it itself, whichever half they are in.

Differences arrive in order or the link is gone, so one that does not fit what is held means that
the other end has dropped its copy in between, as when it took us for no neighbour of its own for a
while: it asks for the whole. Lists of those that stand beside us no more are kept while they are
second neighbours: who stood between may be gone before they have noticed, and then they send
differences.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from overlay.ids import Nanos, Peer
from ring.circle.links import RingLink, RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core
from ring.wire.messages import MAX_HOLDERS, Backup, BackupRequest, Member

LATEST_PERIODS = 40  #: of heartbeats; a difference waits no longer for a ping

_GONE = RingLink(Peer("", 0, ""), 0)  #: stands for every link that is no more


@dataclass(slots=True)
class _Sent:
    """What the other end of a link was told last."""

    link: RingLink
    version: int
    linked: dict[str, Peer]
    stale_since: Nanos | None = None  #: when our list was first seen to be another


@dataclass(slots=True)
class _Held:
    link: RingLink  #: that it came over; versions on another one begin anew
    version: int
    linked: dict[str, Peer]
    noted_at: dict[str, Nanos] = field(default_factory=dict)  #: when differences named those in it


@dataclass(frozen=True, slots=True)
class Listed:
    """Whom a dead neighbour was linked to, in order of uid."""

    peers: tuple[Peer, ...] = ()
    recent: frozenset[str] = frozenset()  #: uids that its other neighbour may not know of yet


class LinkBackups:
    """Our list at our neighbours, and theirs with us."""

    def __init__(self, core: Core, links: RingLinks, neighbourhood: Neighbourhood) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._held: dict[str, _Held] = {}  #: by uid of a ring neighbour
        self._sent: dict[str, _Sent] = {}
        self._version = 0
        self._latest: dict[str, Peer] = {}
        #: Generation of the links and our pointers, when all was last brought up to them.
        self._followed: tuple[int, tuple[Member, ...], tuple[Member, ...]] = (-1, (), ())

    @property
    def beside(self) -> list[str]:
        """Uids of our left and right neighbour."""
        hood = self._neighbourhood
        return list(dict.fromkeys(m.uid for m in (*hood.left[:1], *hood.right[:1])))

    def exchange(self) -> None:
        """Send our left and right neighbour the whole list, or what has waited for too long."""
        self._follow()
        for uid in self.beside:
            message = self._news(uid)
            if message is not None and (not message.base or self._is_overdue(uid)):
                self._send(uid, message)

    def tell(self, uid: str) -> bool:
        """Send ``uid``, which is to hear from us now, what is new; say whether anything is."""
        message = self.news(uid)
        if message is not None:
            self._core.send(uid, message)
        return message is not None

    def news(self, uid: str) -> Backup | None:
        """Return the differences that ``uid`` does not know, as now sent to it; None if none.

        None along a detour, too: what is too long for that is lost.
        """
        sent = self._sent.get(uid)
        if sent is None or sent.link is not self._links.up.get(uid) or uid in self._core.detours:
            return None
        self._follow()
        message = self._news(uid) if uid in self._sent else None
        if message is None or not message.base:
            return None
        self._note_sent(uid)
        return message

    def _follow(self) -> None:
        """Note whom we are linked to, and who stands beside us, as it is now."""
        up, hood = self._links.up, self._neighbourhood
        self._followed = (self._links.generation, hood.left, hood.right)
        linked = {uid: up[uid].peer for uid in sorted(up)[:MAX_HOLDERS]}
        if linked != self._latest:
            self._latest, self._version = linked, self._version + 1
        beside, around = self.beside, self._neighbourhood.adjacent
        self._held = {uid: held for uid, held in self._held.items() if uid in around}
        self._sent = {uid: self._sent[uid] for uid in beside if uid in self._sent}

    def on_backup(self, uid: str, backup: Backup) -> None:
        """Keep a neighbour's list, or change it."""
        held = self._held.get(uid)
        if not backup.base:
            link = self._links.up[uid]
            if held is None or held.link is not link or backup.version >= held.version:
                linked = {peer.uid: peer for peer in backup.linked}
                self._held[uid] = _Held(link, backup.version, linked)
        elif held is None or held.version != backup.base:
            self._core.send(uid, BackupRequest())
        else:
            for name in backup.gone:
                held.linked.pop(name, None)
                held.noted_at.pop(name, None)
            held.linked.update((peer.uid, peer) for peer in backup.linked)
            held.noted_at.update((peer.uid, self._core.now) for peer in backup.linked)
            held.version = backup.version

    def on_request(self, uid: str, request: BackupRequest) -> None:
        """Send the whole list with the next heartbeat."""
        self._sent.pop(uid, None)

    def take(self, uid: str) -> Listed:
        """Return whom a dead neighbour was linked to, as far as it is known, and drop its list."""
        held = self._held.pop(uid, None)
        if held is None:
            return Listed()
        lately = self._core.now - self._latest_ns
        recent = frozenset(name for name, at in held.noted_at.items() if at > lately)
        return Listed(tuple(held.linked[name] for name in sorted(held.linked)), recent)

    def has_news(self, uid: str) -> bool:
        """Say whether :meth:`news` may return something for ``uid``."""
        if not self._is_followed:
            return True
        sent = self._sent.get(uid)
        return sent is not None and sent.version != self._version

    def silent_until(self) -> Nanos | None:
        """Return until when :meth:`tell` and :meth:`exchange` send nothing if no link changes.

        None: for ever. What is past: not even now.
        """
        if not self._is_followed:
            return 0
        until: Nanos | None = None
        monitor_hears = self._neighbourhood.left[:1]
        for uid in self.beside:
            sent, link = self._sent.get(uid), self._links.up.get(uid)
            if link is None:
                continue
            if sent is None or sent.link is not link:
                return 0
            if sent.version == self._version or sent.linked == self._latest:
                continue
            if sent.stale_since is None or (monitor_hears and monitor_hears[0].uid == uid):
                return 0
            overdue = sent.stale_since + self._latest_ns
            until = overdue if until is None else min(until, overdue)
        return until

    @property
    def _is_followed(self) -> bool:
        hood = self._neighbourhood
        return self._followed == (self._links.generation, hood.left, hood.right)

    def clear(self) -> None:
        """Forget the lists of others, and what was sent of ours: this broker is off the ring."""
        self._held.clear()
        self._sent.clear()

    def normalise(self) -> None:
        """Set what makes no difference to what follows to one value, for exploration of states.

        Over a new link all is sent anew: which one is gone, and what went over it, is past.
        """
        up = self._links.up
        self._sent = {uid: sent for uid, sent in self._sent.items() if sent.link is up.get(uid)}
        for uid, held in self._held.items():
            if held.link is not up.get(uid):
                held.link = _GONE

    @property
    def _latest_ns(self) -> Nanos:
        return LATEST_PERIODS * self._core.config.heartbeat_ns

    def _is_overdue(self, uid: str) -> bool:
        """Say whether a difference has waited for too long; one first seen now begins to wait."""
        sent, now = self._sent[uid], self._core.now
        if sent.stale_since is None:
            sent.stale_since = now
        return now - sent.stale_since >= self._latest_ns

    def _news(self, uid: str) -> Backup | None:
        """Return what ``uid`` does not know of our list; None if that is nothing."""
        sent, link = self._sent.get(uid), self._links.up.get(uid)
        if link is None:
            return None
        if sent is None or sent.link is not link:
            return Backup(self._version, tuple(self._latest.values()))
        if sent.version == self._version:
            return None
        new = tuple(p for name, p in self._latest.items() if sent.linked.get(name) != p)
        gone = tuple(name for name in sent.linked if name not in self._latest)
        return Backup(self._version, new, gone, sent.version) if new or gone else None

    def _send(self, uid: str, message: Backup) -> None:
        self._note_sent(uid)
        self._core.send(uid, message)

    def _note_sent(self, uid: str) -> None:
        self._sent[uid] = _Sent(self._links.up[uid], self._version, self._latest)
