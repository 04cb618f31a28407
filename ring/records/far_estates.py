"""Copies of a dead broker's records that lie far from its place: has anybody taken these over?

As a rule the brokers beside the dead one own its records by now. But they may know of none: where
one of two holders died as well and somebody got a place between, the other holder is no heir, and
the heirs were never told of the records. So a holder that stands too far away to take them over
does not drop its copies by the clock. It asks those that stand around the place of the dead one
(:class:`~ring.wire.record_messages.Reclaim`), and

* drops what has an owner by that owner's own word, or by that of others twice, some time apart;
* owns the rest itself, by a claim *below* that of the dead: a broker that has taken a record over
  all the same has the better claim, and the two meet at the record's home
  (:mod:`ring.records.homes`);
* keeps its copies, and asks again, as long as nobody answers or it has no room to own them.

Departs from the paper (004, section 3.2), where the neighbours of the dead have all its backups.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from overlay.circular import is_after
from overlay.ids import Nanos, Peer
from ring.circle.links import RingLinks
from ring.core import Core
from ring.records.claims import below
from ring.records.reclaim import MAX_ASKED, NEAREST, Reclaimer, nearest_to
from ring.records.replicas import Held, Replicas
from ring.wire.record_messages import MAX_ENTRIES, Entry, Reclaim, ReclaimAnswer

ROUND = 3  #: detection times until the same estate is asked after again


@dataclass(slots=True)
class Inquiry:
    """One estate, and who is asked after it in this round."""

    held: Held
    until: Nanos = 0  #: the next round begins then, if no answer comes before
    is_open: bool = False
    keys: list[str] = field(default_factory=list)  #: of the estate as the round began, in order
    answered: int = 0  #: brokers that have answered for all records
    asking: dict[str, tuple[Peer, tuple[str, ...]]] = field(default_factory=dict)  #: and the keys
    asked: dict[str, None] = field(default_factory=dict)
    taken: dict[str, None] = field(default_factory=dict)  #: keys, owned as others say ...
    taken_before: dict[str, None] = field(default_factory=dict)  #: ... and said the round before


class FarEstates:
    """Finds an owner for the records in those estates that are not ours to settle."""

    def __init__(
        self,
        core: Core,
        links: RingLinks,
        reclaimer: Reclaimer,
        replicas: Replicas,
        take: Callable[[str, Held, Entry], bool],
    ) -> None:
        self._core = core
        self._links = links
        self._reclaimer = reclaimer
        self._replicas = replicas
        self._take = take  #: own a record by the claim after this one; False: there is no room
        self._inquiries: dict[tuple[str, int], Inquiry] = {}  #: by uid and incarnation of the dead

    def ask_after(self, held: Held) -> None:
        """Ask who owns the records of an estate; to be called again until it is settled."""
        life = (held.uid, held.peer.incarnation)
        inquiry = self._inquiries.get(life)
        if inquiry is None or inquiry.held is not held:
            inquiry = self._inquiries[life] = Inquiry(held)
        if self._core.now < inquiry.until:
            return
        if inquiry.is_open and inquiry.answered:
            self._conclude(inquiry)  # without those that did not answer
        for key in list(held.keys):
            if self._replicas.records[key].body is None:
                self._replicas.remove(key)
        if held.keys:
            self._begin(inquiry)

    def forget_settled(self) -> None:
        """Forget the estates that are settled."""
        estates = {id(held) for held in self._replicas.estates}
        for life, inquiry in list(self._inquiries.items()):
            if id(inquiry.held) not in estates:
                del self._inquiries[life]

    def clear(self) -> None:
        """Forget all: this broker is off the ring, and keeps no estates."""
        self._inquiries.clear()

    def on_answer(self, uid: str, answer: ReclaimAnswer) -> bool:
        """Note who owns what; returns whether we had asked for that."""
        answered = {*answer.free, *(taken.entry.key for taken in answer.taken)}
        for inquiry in self._inquiries.values():
            if uid in inquiry.asking and answered == set(inquiry.asking[uid][1]):
                self._note(inquiry, uid, answer)
                return True
        return False

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _begin(self, inquiry: Inquiry) -> None:
        self._wait(inquiry)
        inquiry.is_open = True
        inquiry.keys = sorted(inquiry.held.keys)
        inquiry.answered = 0
        inquiry.asking.clear()
        inquiry.asked.clear()
        inquiry.taken_before, inquiry.taken = inquiry.taken, {}
        if inquiry.held.is_silent:
            self._ask_too(inquiry, inquiry.held.peer)
        for member in self._reclaimer.nearest(inquiry.held.place, NEAREST):
            self._ask_too(inquiry, member.peer)

    def _wait(self, inquiry: Inquiry) -> None:
        inquiry.until = self._core.now + ROUND * self._core.config.silence_ns

    def _ask_too(self, inquiry: Inquiry, peer: Peer) -> None:
        is_new = peer.uid not in inquiry.asked and len(inquiry.asked) < MAX_ASKED
        if is_new and peer.uid != self._core.peer.uid:
            inquiry.asked[peer.uid] = None
            self._ask(inquiry, peer, after="")

    def _ask(self, inquiry: Inquiry, peer: Peer, after: str) -> None:
        """Ask after the next records; after the last, ``peer`` has answered for all."""
        later = islice(inquiry.keys, bisect_right(inquiry.keys, after), None)
        keys = tuple(islice((key for key in later if key in inquiry.held.keys), MAX_ENTRIES))
        if keys:
            inquiry.asking[peer.uid] = (peer, keys)
            entries = tuple(self._claim(key) for key in keys)
            self._links.tell(peer, Reclaim(entries, inquiry.held.place))
        else:
            inquiry.asking.pop(peer.uid, None)
            inquiry.answered += 1

    def _claim(self, key: str) -> Entry:
        """Return the claim before the one that we would make; with older bytes a smaller one."""
        replica = self._replicas.records[key]
        claim = below(replica.entry)
        return claim if replica.content == replica.entry.content else below(claim)

    def _note(self, inquiry: Inquiry, uid: str, answer: ReclaimAnswer) -> None:
        held, owners = inquiry.held, set()
        for taken in answer.taken:
            key, owner = taken.entry.key, taken.owner
            replica = self._replicas.records.get(key)
            if replica is None or replica.held is not held:
                continue  # we have heard of its owner meanwhile
            is_later = is_after(taken.entry.epoch, replica.entry.epoch)
            if owner == uid:
                self._replicas.remove(key)
            elif is_later or owner != held.uid:  # else ``uid`` has not heard that it is dead
                inquiry.taken[key] = None
                owners.add(owner)
        if self._links.up[uid].peer == held.peer:  # in this very life it has given them up
            for key in answer.free:
                if key in held.keys:
                    self._replicas.remove(key)
        around = list(answer.around)
        for member in nearest_to(held.place, around, NEAREST):
            self._ask_too(inquiry, member.peer)
        for member in around:
            if member.uid in owners:
                self._ask_too(inquiry, member.peer)
        self._wait(inquiry)  # a large estate takes many answers
        peer, keys = inquiry.asking[uid]
        self._ask(inquiry, peer, after=keys[-1])
        if not inquiry.asking:
            self._conclude(inquiry)

    def _conclude(self, inquiry: Inquiry) -> None:
        inquiry.is_open = False
        inquiry.asking.clear()
        for key in sorted(inquiry.held.keys):
            if key not in inquiry.taken:
                self._take(key, inquiry.held, self._claim(key))
            elif key in inquiry.taken_before:
                self._replicas.remove(key)
