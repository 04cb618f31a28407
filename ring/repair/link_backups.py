"""Whom each broker is linked to, kept by its left and right neighbour (paper 004, section 3.2).

When it dies they divide that list between them, and tell each on it [divide-neighbour].

A list is sent whole over a new link, and as differences after that. They arrive in order or the
link is gone, so one that does not fit what is held means that the other end has dropped its copy
in between, as when it took us for no neighbour of its own for a while: it asks for the whole. Lists
of those that stand beside us no more are kept while they are second neighbours: who stood between
may be gone before they have noticed, and then they send differences.
"""

from __future__ import annotations

from dataclasses import dataclass

from overlay.ids import Peer
from ring.circle.links import RingLink, RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core
from ring.wire.messages import MAX_HOLDERS, Backup, BackupRequest

_GONE = RingLink(Peer("", 0, ""), 0)  #: stands for every link that is no more


@dataclass(slots=True)
class _Sent:
    """What the other end of a link was told last."""

    link: RingLink
    version: int
    linked: dict[str, Peer]


@dataclass(slots=True)
class _Held:
    link: RingLink  #: that it came over; versions on another one begin anew
    version: int
    linked: dict[str, Peer]


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

    @property
    def beside(self) -> list[str]:
        """Uids of our left and right neighbour."""
        hood = self._neighbourhood
        return list(dict.fromkeys(m.uid for m in (*hood.left[:1], *hood.right[:1])))

    def exchange(self) -> None:
        """Bring our left and right neighbour up to date on whom we are linked to."""
        up = self._links.up
        linked = {uid: up[uid].peer for uid in sorted(up)[:MAX_HOLDERS]}
        if linked != self._latest:
            self._latest, self._version = linked, self._version + 1
        beside, around = self.beside, self._neighbourhood.adjacent
        self._held = {uid: held for uid, held in self._held.items() if uid in around}
        self._sent = {uid: self._sent[uid] for uid in beside if uid in self._sent}
        for uid in beside:
            if uid in up:
                self._tell(uid, up[uid])

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
            held.linked.update((peer.uid, peer) for peer in backup.linked)
            held.version = backup.version

    def on_request(self, uid: str, request: BackupRequest) -> None:
        """Send the whole list with the next heartbeat."""
        self._sent.pop(uid, None)

    def take(self, uid: str) -> list[Peer] | None:
        """Return whom a dead neighbour was linked to, in order of uid, and drop its list."""
        held = self._held.pop(uid, None)
        return None if held is None else [held.linked[name] for name in sorted(held.linked)]

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

    def _tell(self, uid: str, link: RingLink) -> None:
        sent = self._sent.get(uid)
        if sent is None or sent.link is not link:
            message = Backup(self._version, tuple(self._latest.values()))
        elif sent.version == self._version:
            return
        else:
            new = tuple(p for name, p in self._latest.items() if sent.linked.get(name) != p)
            gone = tuple(name for name in sent.linked if name not in self._latest)
            message = Backup(self._version, new, gone, sent.version)
        self._sent[uid] = _Sent(link, self._version, self._latest)
        self._core.send(uid, message)
