"""Duties that change hands between two living brokers (paper 004, section 3.2).

The owner offers a record under the next epoch and stays its owner until the answer: so there is one
at any time, whichever of the two dies when. The new owner answers only when its own backups have
the record. An offer whose answer does not come in time is overtaken by a later epoch of the old
owner's, so that nobody can accept it later for good.

A broker that leaves hands over everything first, to the brokers beside it, and to those beyond
where these leave too. Others take over from its backups the records that it cannot hand over in
time.

Departs from the paper, which knows no leave that hands over: its records would be without an owner
until they are taken over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.circular import following, is_after
from overlay.ids import Nanos, Peer
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core
from ring.facts import DutyTaken
from ring.geometry import clockwise
from ring.records.backups import Backups
from ring.records.claims import claim_of, fraction_of
from ring.records.replicas import Replicas
from ring.wire.messages import Member
from ring.wire.record_messages import Answer, Entry, Fence, Forget, Offer, OfferAnswer

WINDOW = 24  #: offers under way at once; less than the links keep for one that comes up


@dataclass(slots=True)
class Pending:
    """An offer that is not answered yet."""

    to: Member
    claim: Entry
    weight: int  #: load that goes with the record, in thousandths of full load
    must: bool
    until: Nanos


class Handover:
    """Offers of ours, and those of others that we have not answered yet."""

    def __init__(
        self,
        core: Core,
        links: RingLinks,
        neighbourhood: Neighbourhood,
        backups: Backups,
        replicas: Replicas,
    ) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self._backups = backups
        self._replicas = replicas
        self.pending: dict[str, Pending] = {}
        self._owed: dict[str, tuple[Peer, int]] = {}  #: key -> who waits for our answer, epoch
        self.refusing: dict[str, None] = {}  #: neighbours that had no room lately
        self.on_weight: Callable[[int], None] = lambda weight: None  #: our load has changed by that
        replicas.is_offered = self._is_offered

    # ── giving ────────────────────────────────────────────────────────────────────────────────

    def offer(self, key: str, to: Member, weight: int, *, must: bool) -> None:
        """Offer one of our records to ``to``; at most :data:`WINDOW` at once.

        ``weight``: the load that goes with it, in thousandths of full load. ``must``: it is to be
        taken whatever the load.
        """
        if key in self.pending or len(self.pending) >= WINDOW:
            return
        core, own = self._core, self._backups.own[key]
        entry = own.entry
        claim = Entry(key, following(entry.epoch), entry.place, entry.version, entry.content)
        until = core.now + 2 * core.config.silence_ns
        self.pending[key] = Pending(to, claim, weight, must, until)
        self._send(key, with_body=not self._backups.has_latest(to.uid, key))

    def on_written(self, key: str) -> None:
        """The record has changed since it was offered: offer it as it is now."""
        pending = self.pending.get(key)
        if pending is not None:
            entry = self._backups.own[key].entry
            claim = pending.claim
            pending.claim = Entry(key, claim.epoch, claim.place, entry.version, entry.content)
            self._send(key, with_body=True)

    def withdraw(self, key: str) -> None:
        """The record is dropped: a taker of our offer owns it no more, and forgets it."""
        pending, own = self.pending.pop(key, None), self._backups.own.get(key)
        if pending is not None and own is None:
            self.on_weight(-pending.weight)  # its copies reached us before its answer
        elif pending is not None and own is not None:
            claim = Entry(key, following(pending.claim.epoch), own.entry.place, 0, 0)
            self._links.tell(pending.to.peer, Fence((claim,)))
            self._links.tell(pending.to.peer, Forget(key))

    def on_answer(self, uid: str, answer: OfferAnswer) -> None:
        """A broker takes a record that we offered, asks for its bytes, or declines."""
        key = answer.key
        pending = self.pending.get(key)
        own = self._backups.own.get(key)
        if pending is None or pending.to.uid != uid or pending.claim.epoch != answer.epoch:
            return
        if own is None:  # its copies reached us before its answer
            del self.pending[key]
            self.on_weight(-pending.weight)
            return
        if answer.answer is Answer.WITHOUT_BODY:
            self._send(key, with_body=True)
            return
        del self.pending[key]
        if answer.answer is Answer.TAKEN:
            self._backups.lose(key, uid, pending.claim)
            self._replicas.keep(pending.claim, pending.to.peer, pending.to.ring_id, own.body)
            self.on_weight(-pending.weight)
        elif pending.must:
            self._backups.leavers[uid] = None  # as good as: it takes nothing
        else:
            self.refusing[uid] = None

    def expire(self, gone: str | None = None) -> None:
        """Take back offers that were not answered in time, or were made to one that is gone."""
        for key, pending in list(self.pending.items()):
            if pending.to.uid == gone or pending.until <= self._core.now:
                del self.pending[key]
                own = self._backups.own.get(key)
                if own is None:
                    self.on_weight(-pending.weight)
                else:
                    self._replicas.remove(key)  # the claim that we offered, if it was taken up
                    claim = Entry(key, following(pending.claim.epoch), own.entry.place, 0, 0)
                    self._backups.hold(
                        claim,
                        own.body,
                        own.previous,
                        version=own.entry.version,
                        taken_from=own.taken_from,
                    )

    def give_all(self) -> None:
        """Offer what is left of our records to those beside us, as one who leaves."""
        heirs = self.heirs()
        if not heirs:
            return
        for key, own in list(self._backups.own.items()):
            if len(self.pending) >= WINDOW:
                return
            heir = heirs[fraction_of(key) * len(heirs) // 1000]
            weight = self._backups.load // max(1, len(self._backups.own))
            if own.entry.key not in self.pending:
                self.offer(key, heir, weight, must=True)

    def heirs(self) -> tuple[Member, ...]:
        """Return the nearest linked broker on each side that does not leave, as far as known."""
        hood, here = self._neighbourhood, self._core.member
        stay = [
            member
            for member in hood.around()
            if member.uid not in self._backups.leavers
            and member.uid in self._links.up  # of others nobody may know that they have left
            and member.uid not in hood.suspects
        ]
        if not stay:
            return ()
        left = min(stay, key=lambda m: clockwise(m.ring_id, here.ring_id))
        right = min(stay, key=lambda m: clockwise(here.ring_id, m.ring_id))
        return tuple(dict.fromkeys((left, right)))

    def clear(self) -> None:
        """Forget all offers: this broker is off the ring."""
        self.pending.clear()
        self._owed.clear()

    # ── taking ────────────────────────────────────────────────────────────────────────────────

    def on_offer(self, uid: str, offer: Offer) -> None:
        """Take a duty, or say why not. One that we have taken already changes nothing."""
        core, backups, entry = self._core, self._backups, offer.entry
        peer, key = self._links.up[uid].peer, offer.entry.key
        own = backups.own.get(key)
        if own is not None and own.entry.epoch == entry.epoch and own.previous == uid:
            if offer.body is not None and is_after(entry.version, own.entry.version):
                backups.hold(own.entry, offer.body, uid, version=entry.version)
                core.notify(DutyTaken(key, offer.body, uid, entry.epoch))
        elif own is not None and not is_after(entry.epoch, own.entry.epoch):
            self._links.tell(peer, Fence((own.entry,)))  # it is ours already
            return
        elif not core.joined or backups.leaving or not self._may_take(offer):
            self._links.tell(peer, OfferAnswer(key, entry.epoch, Answer.REFUSED))
            return
        else:
            body = offer.body if offer.body is not None else self._copy(entry)
            if body is None:
                self._links.tell(peer, OfferAnswer(key, entry.epoch, Answer.WITHOUT_BODY))
                return
            self._replicas.remove(key)
            backups.hold(claim_of(entry), body, uid, version=entry.version)
            core.notify(DutyTaken(key, body, uid, entry.epoch))
            self.on_weight(offer.weight)
        if offer.must:  # whoever says that is leaving
            backups.leavers[uid] = None
        self._owed[key] = (peer, entry.epoch)
        backups.follow()
        self.answer_safe()

    def answer_safe(self) -> None:
        """Answer the offers of records that our own backups have by now."""
        backups = self._backups
        for key, (peer, epoch) in list(self._owed.items()):
            own = backups.own.get(key)
            if own is None or own.entry.epoch != epoch:
                del self._owed[key]
            elif backups.is_safe(key):
                del self._owed[key]
                self._links.tell(peer, OfferAnswer(key, epoch, Answer.TAKEN))

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _is_offered(self, uid: str, entry: Entry) -> bool:
        pending = self.pending.get(entry.key)
        return pending is not None and (pending.to.uid, pending.claim.epoch) == (uid, entry.epoch)

    def _send(self, key: str, *, with_body: bool) -> None:
        pending, own = self.pending[key], self._backups.own[key]
        body = own.body if with_body else None
        self._links.tell(pending.to.peer, Offer(pending.claim, body, pending.weight, pending.must))

    def _copy(self, entry: Entry) -> bytes | None:
        replica = self._replicas.records.get(entry.key)
        fits = replica is not None and replica.content == entry.content
        return replica.body if replica is not None and fits else None

    def _may_take(self, offer: Offer) -> bool:
        backups = self._backups
        body = offer.body if offer.body is not None else b""
        if backups.refuses(offer.entry.key, body) is not None:
            return False
        return offer.must or backups.load + offer.weight < self._core.config.overload
