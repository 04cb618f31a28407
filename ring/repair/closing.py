"""After a confirmed death: close the gap, and divide the dead broker's neighbours
(paper 004, section 3.4.1).

A and C, the brokers beside the dead B, become neighbours by what :mod:`ring.circle.neighbourhood`
computes. Then A and C have to tell the others: the brokers around, who have B in a pointer, and
the holders of links to B, whom A and C divide between them, from the list that
:mod:`ring.repair.link_backups` keeps for that purpose. The broker that tells a holder is also the
heir it is to route to, so that one link serves for both. The cost is O(degree(B)) messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from overlay.ids import Peer
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core
from ring.facts import Confirmed, Repaired
from ring.repair.link_backups import LinkBackups
from ring.wire.messages import Failed, Member


@dataclass(slots=True)
class Loss:
    """A death beside us, until the ring is whole again."""

    subject: Member
    witnesses: tuple[str, ...]
    left_to: str | None = None  #: uid of the broker that is to tell the others
    others: list[Peer] = field(default_factory=list)


class Repair:
    """Tells those concerned, and knows when the four pointers are whole again."""

    def __init__(
        self, core: Core, links: RingLinks, neighbourhood: Neighbourhood, link_backups: LinkBackups
    ) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._link_backups = link_backups
        self._unrepaired: dict[str, Loss] = {}

    @property
    def about(self) -> str | None:
        """The failure whose repair is under way, latest first, or None."""
        return next(reversed(self._unrepaired), None)

    def begin(self, subject: Member, witnesses: tuple[str, ...]) -> Member | None:
        """``subject``, one of the four, is dead: tell everybody concerned; returns its heir.

        To be called while the subject still stands in its pointer.
        """
        heir = self._core.member if subject.uid in self._link_backups.beside else None
        # beside ours, the witnesses: one may stand beside the subject, beyond what we see
        around = (*self._neighbourhood.adjacent, *witnesses)
        self._tell(subject, witnesses, around, heir)
        return heir

    def join_in(
        self, subject: Member, witnesses: tuple[str, ...], heir: Member | None, teller: str
    ) -> None:
        """Tell those around of a death that ``teller`` told us of; it has told the witnesses."""
        around = [other for other in self._neighbourhood.adjacent if other != teller]
        self._tell(subject, witnesses, around, heir)

    def check(self) -> None:
        """Notice that the ring around us is whole again."""
        if self._unrepaired and self._neighbourhood.agrees():
            for loss in self._unrepaired.values():
                self._core.notify(Repaired(loss.subject))
            self._unrepaired.clear()

    def clear(self) -> None:
        """Forget gaps that are not closed yet: this broker is off the ring."""
        self._unrepaired.clear()

    def _tell(
        self,
        subject: Member,
        witnesses: tuple[str, ...],
        told: Iterable[str],
        heir: Member | None,
    ) -> None:
        core, uid = self._core, subject.uid
        core.notify(Confirmed(subject, witnesses))
        loss = self._unrepaired[uid] = Loss(subject, witnesses)
        around = {other for other in self._neighbourhood.adjacent if other != uid}
        for other in dict.fromkeys(told):
            if other != uid and other in self._links.up:
                core.send(other, Failed(subject, witnesses, heir), uid)
        for known in self._unrepaired.values():
            if known.left_to == uid:
                self._inform(known, known.others, around)
        if uid in self._link_backups.beside:
            self._divide(loss, around)

    def _divide(self, loss: Loss, told: set[str]) -> None:
        """Tell our share of the subject's neighbours to route to us instead [divide-neighbour].

        The last digit of its uid says whose half a holder is in, so that the two halve the same
        even where one of them does not know of all. The broker on the left also takes those of whom
        the one on the right may not know yet. Either takes the whole if the other one is not there
        to do its part, or may not have the list, as where more than one died. The subject's ring
        neighbours hear of it from the two as their own.
        """
        hood, subject = self._neighbourhood, loss.subject
        holders = self._link_backups.take(subject.uid)
        is_left = any(m.uid == subject.uid for m in hood.right[:1])
        beyond = (hood.right if is_left else hood.left)[1:2]
        mine, others = list[Peer](), list[Peer]()
        for peer in holders.peers:
            is_ours = _is_of_left(peer.uid) is is_left or (is_left and peer.uid in holders.recent)
            (mine if is_ours else others).append(peer)
        if not beyond or beyond[0].uid in hood.suspects or len(self._unrepaired) > 1:
            mine += others
        else:
            loss.left_to, loss.others = beyond[0].uid, others
            told = told | self._seen_by(subject)
        self._inform(loss, mine, told)

    def _inform(self, loss: Loss, holders: Iterable[Peer], told: set[str]) -> None:
        core, hood, subject = self._core, self._neighbourhood, loss.subject
        notice = Failed(subject, loss.witnesses, core.member)
        for holder in holders:
            if holder.uid == core.peer.uid or holder.uid in told:
                continue
            if not hood.is_dead(holder.uid, holder.incarnation):
                self._links.tell(holder, notice, subject.uid)

    def _seen_by(self, subject: Member) -> set[str]:
        link = self._links.up.get(subject.uid)
        view = link.view if link is not None else None
        return set() if view is None else {m.uid for m in (*view.left, *view.right)}


def _is_of_left(uid: str) -> bool:
    """Say whether the left neighbour of the dead tells that holder, not the right one."""
    return int(uid[-1], 16) % 2 == 0
