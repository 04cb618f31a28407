"""After a confirmed death: close the gap, and divide the dead broker's neighbours
(paper 004, section 3.4.1).

A and C, the brokers beside the dead B, become neighbours by what :mod:`ring.neighbourhood`
computes. What is left to do is to tell: the brokers around, who have B in a pointer, and the
holders of links to B, whom A and C divide between them. Each broker keeps its linked peers backed
up at its left and right neighbour for that purpose. The cost is O(degree(B)) messages.
"""

from __future__ import annotations

from overlay.ids import Peer
from ring.core import Core
from ring.facts import Confirmed, Repaired
from ring.geometry import clockwise
from ring.links import Links
from ring.messages import Backup, Failed, Member
from ring.neighbourhood import Neighbourhood

MAX_HOLDERS = 128


class Repair:
    """Tells those concerned, and knows when the four pointers are whole again."""

    def __init__(self, core: Core, links: Links, neighbourhood: Neighbourhood) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._backups: dict[str, Backup] = {}  #: of our left and right neighbour
        self._unrepaired: dict[str, Member] = {}
        self._sent: tuple[Peer, ...] = ()
        self._sent_to: dict[str, int] = {}
        self._version = 0

    @property
    def about(self) -> str | None:
        """The failure whose repair is under way, latest first, or None."""
        return next(reversed(self._unrepaired), None)

    def on_backup(self, uid: str, backup: Backup) -> None:
        known = self._backups.get(uid)
        if known is None or backup.version >= known.version:
            self._backups[uid] = backup

    def exchange_backups(self) -> None:
        """Bring our left and right neighbour up to date on whom we are linked to."""
        core, links = self._core, self._links
        linked = tuple(link.peer for _, link in sorted(links.up.items()))[:MAX_HOLDERS]
        if linked != self._sent:
            self._sent, self._version = linked, self._version + 1
        beside = self._beside()
        self._backups = {uid: self._backups[uid] for uid in beside if uid in self._backups}
        self._sent_to = {uid: self._sent_to.get(uid, 0) for uid in beside}
        for uid, version in self._sent_to.items():
            if version < self._version and uid in links.up:
                core.send(uid, Backup(self._version, linked))
                self._sent_to[uid] = self._version

    def begin(self, subject: Member, witnesses: tuple[str, ...], *, is_told: bool = False) -> None:
        """``subject``, one of the four, is dead: tell everybody concerned.

        To be called while the subject still stands in its pointer. ``is_told``: on the word of
        another, which has told its witnesses.
        """
        core, uid = self._core, subject.uid
        core.notify(Confirmed(subject, witnesses))
        self._unrepaired[uid] = subject
        around = [m for other, m in self._neighbourhood.adjacent.items() if other != uid]
        told = {member.uid for member in around}
        for member in around:
            if member.uid in self._links.up:
                core.send(member.uid, Failed(subject, witnesses, None), uid)
        for witness in (
            () if is_told else witnesses
        ):  # it may stand beside the subject, and beyond what we see
            if witness not in told and witness in self._links.up:
                core.send(witness, Failed(subject, witnesses, None), uid)
        if uid in self._beside():
            self._divide(subject, witnesses, told)

    def check(self) -> None:
        """Notice that the ring around us is whole again."""
        if self._unrepaired and self._neighbourhood.agrees():
            for subject in self._unrepaired.values():
                self._core.notify(Repaired(subject))
            self._unrepaired.clear()

    def clear(self) -> None:
        self._backups.clear()
        self._sent_to.clear()
        self._unrepaired.clear()

    def _beside(self) -> list[str]:
        hood = self._neighbourhood
        return list(dict.fromkeys(m.uid for m in (*hood.left[:1], *hood.right[:1])))

    def _divide(self, subject: Member, witnesses: tuple[str, ...], told: set[str]) -> None:
        """Tell our share of the subject's neighbours who stands in for it [divide-neighbour].

        The broker on the left takes the first half in order of uid, the one on the right the
        second; the whole if the other one is not there to do its part.
        """
        backup = self._backups.pop(subject.uid, None)
        if backup is None:
            return
        core, hood = self._core, self._neighbourhood
        holders = sorted((p for p in backup.linked if p.uid != core.peer.uid), key=lambda p: p.uid)
        half = (len(holders) + 1) // 2
        ours = core.member
        if any(m.uid == subject.uid for m in hood.right[:1]):
            beyond, mine = hood.right[1:2], holders[:half]
        else:
            beyond, mine = hood.left[1:2], holders[half:]
        if not beyond or beyond[0].uid in hood.suspects:
            mine = holders
        heirs = (ours, *beyond)
        heir = min(heirs, key=lambda m: clockwise(subject.ring_id, m.ring_id))
        for holder in mine:
            if holder.uid not in told and not hood.is_dead(holder.uid, holder.incarnation):
                self._links.tell(holder, Failed(subject, witnesses, heir), subject.uid)
