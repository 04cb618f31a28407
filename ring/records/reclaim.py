"""Which records of a broker that is back are its own still? (on paper 004, section 3.4.1)

It lost its place: it was taken for dead, or gave the place up for another one. Those that were
around it may have taken its records over, and it may stand far from them now, where no common
neighbour would notice that a record has two owners. So it owns nothing until it has asked: a record
that another one has claimed is lost, the others it claims anew under the next epoch, and those
asked leave them alone. A broker that cannot be reached is asked again later, for a bounded time;
should it have a better claim after all, the record is lost then.

Asked are its neighbours of before, and those that stand around its old place now: the answers name
brokers nearer to that, so the question finds its way there from wherever it begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from sortedcontainers import SortedDict

from overlay.circular import following, is_after
from overlay.ids import Peer
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core, Timer
from ring.facts import DutyLost, DutyTaken
from ring.geometry import clockwise
from ring.records.backups import Backups
from ring.records.claims import next_claim, outranks
from ring.records.replicas import Replicas
from ring.wire.messages import Member
from ring.wire.record_messages import MAX_ENTRIES, Entry, Fence, Reclaim, ReclaimAnswer, Taken

MAX_ASKED = 32
NEAREST = 2  #: brokers on each side of the old place that are to answer
NAMED = 4  #: brokers on each side of it that an answer names
MAX_TRIES = 60  #: rounds of asking those that cannot be reached


@dataclass(slots=True)
class Suspended:
    """A record that was ours, or one of a dead broker that we kept."""

    entry: Entry
    owner: str
    body: bytes


class Reclaimer:
    """Asks after the records of before, and answers others that ask."""

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
        self.suspended: dict[str, Suspended] = {}
        self._claims = SortedDict()  #: key -> claim that we ask after
        self._asking: dict[str, tuple[Peer, str]] = {}  #: uid -> peer, last key it answered for
        self._asked: dict[str, None] = {}  #: all whom we have asked
        self._place = 0  #: where we were on the ring
        self._tries = 0

    # ── asking ────────────────────────────────────────────────────────────────────────────────

    def suspend(self, around: list[Peer]) -> None:
        """Own nothing for the time being; ``around`` are those who may take over."""
        me = self._core.peer.uid
        for key, own in self._backups.clear().items():
            self.suspended[key] = Suspended(own.entry, me, own.body)
        for key, replica in self._replicas.clear().items():
            if replica.body is not None:
                self.suspended[key] = Suspended(replica.entry, replica.held.uid, replica.body)
        self._claims = SortedDict((key, record.entry) for key, record in self.suspended.items())
        if self.suspended:
            self._place = self._core.ring_id or 0
            unanswered = {peer.uid: peer for peer, _ in self._asking.values()}
            unanswered.update((peer.uid, peer) for peer in around if peer.uid != me)
            latest = list(unanswered.values())[-MAX_ASKED // 2 :]
            self._asking = {peer.uid: (peer, "") for peer in latest}
            self._asked = dict.fromkeys(self._asking)

    def begin(self) -> None:
        """This broker has a place again."""
        if self.suspended:
            self._tries = 0
            self._core.arm(Timer.RECLAIM, "", 2 * self._core.config.silence_ns)
            self._ask_all()
            self._widen(self.nearest(self._place, NEAREST))
            self._finish_if_answered()

    def on_late(self) -> None:
        """Not all have answered: go on without them."""
        self._resume()

    def ask_again(self) -> None:
        """Ask those that could not be reached, now and then."""
        if self._asking and not self.suspended:
            self._tries += 1
            if self._tries > MAX_TRIES:
                self._asking.clear()
            self._ask_all()

    def on_answer(self, uid: str, answer: ReclaimAnswer) -> None:
        """A neighbour says who has taken which of our records; the better claim to each counts."""
        if uid not in self._asking:
            return
        me = self._core.peer.uid
        for taken in answer.taken:
            key = taken.entry.key
            record, own = self.suspended.pop(key, None), self._backups.own.get(key)
            if record is not None:
                self._core.notify(DutyLost(key, record.body, taken.owner, taken.entry.epoch))
            elif own is None:
                continue
            elif outranks(taken.entry, taken.owner, own.entry, me):
                self._backups.lose(key, taken.owner, taken.entry)
            elif taken.owner == uid:
                self._core.send(uid, Fence((own.entry,)))
        peer, after = self._asking[uid]
        last = max((*(taken.entry.key for taken in answer.taken), *answer.free), default="")
        if last > after:  # else it was said before, and what was asked since is yet to be answered
            self._asking[uid] = (peer, last)
            self._ask(uid)
        self._widen(nearest_to(self._place, list(answer.around), NEAREST))
        self._finish_if_answered()

    # ── answering ─────────────────────────────────────────────────────────────────────────────

    def on_reclaim(self, uid: str, request: Reclaim) -> None:
        """``uid`` is back: say what has become of its records, and leave it the others."""
        taken = []
        free = []
        for entry in request.entries:
            better = self._better(uid, entry)
            if better is None:
                free.append(entry.key)
                self._leave_alone(uid, entry)
            else:
                taken.append(better)
        around = tuple(self.nearest(request.place, NAMED))
        self._core.send(uid, ReclaimAnswer(tuple(taken), tuple(free), around))

    def _better(self, uid: str, entry: Entry) -> Taken | None:
        """Return the best claim we know of, if it is better than the one of ``uid``."""
        me, key = self._core.peer.uid, entry.key
        own, record = self._backups.own.get(key), self.suspended.get(key)
        replica = self._replicas.records.get(key)
        if own is not None and outranks(own.entry, me, entry, uid):
            return Taken(own.entry, me)
        dropped = self._backups.dropped.get(key)
        if dropped is not None and outranks(dropped, me, entry, uid):
            return Taken(dropped, me)  # it was ours, and is to be nobody's
        if record is not None and outranks(record.entry, me, entry, uid):
            return Taken(record.entry, me)
        if (
            replica is not None
            and replica.held.gone_at is None
            and replica.held.uid != uid
            and outranks(replica.entry, replica.held.uid, entry, uid)
        ):
            return Taken(replica.entry, replica.held.uid)
        return None

    def _leave_alone(self, uid: str, entry: Entry) -> None:
        """The record is to be owned by ``uid``, and nobody else."""
        key = entry.key
        record = self.suspended.pop(key, None)
        if record is not None:
            self._core.notify(DutyLost(key, record.body, uid, entry.epoch))
        self._backups.lose(key, uid, entry)
        replica = self._replicas.records.get(key)
        if replica is not None and not is_after(replica.entry.epoch, entry.epoch):
            self._replicas.remove(
                key
            )  # else the copy is the better one, and kept until it is owned

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _ask_all(self) -> None:
        for uid in list(self._asking):
            self._ask(uid)

    def _ask(self, uid: str) -> None:
        """Ask ``uid`` after the next records; after the last, it has answered."""
        peer, after = self._asking[uid]
        later = self._claims.irange(after, inclusive=(False, False))
        mine = (key for key in later if key in self.suspended or key in self._backups.own)
        keys = list(islice(mine, MAX_ENTRIES))
        if keys:
            entries = tuple(self._claims[key] for key in keys)
            self._links.tell(peer, Reclaim(entries, self._place))
        else:
            del self._asking[uid]

    def _widen(self, members: list[Member]) -> None:
        """Ask those too that stand around our old place now."""
        for member in members:
            uid = member.uid
            if uid == self._core.peer.uid or uid in self._asked or len(self._asked) >= MAX_ASKED:
                continue
            self._asked[uid] = None
            self._asking[uid] = (member.peer, "")
            self._ask(uid)

    def nearest(self, place: int, count: int) -> list[Member]:
        """Return the members we know on each side of ``place``, ourselves among them."""
        if not self._core.joined:
            return []
        return nearest_to(place, [*self._neighbourhood.known().values(), self._core.member], count)

    def _finish_if_answered(self) -> None:
        if not self._asking:
            self._core.disarm(Timer.RECLAIM)
            self._resume()

    def _resume(self) -> None:
        """Claim anew what nobody else has claimed."""
        for key, record in self.suspended.items():
            entry = record.entry
            claim = next_claim(entry)
            self._backups.hold(claim, record.body, None, version=following(entry.version))
            self._core.notify(DutyTaken(key, record.body, record.owner, claim.epoch))
        self.suspended.clear()
        self._backups.follow()


def nearest_to(place: int, members: list[Member], count: int) -> list[Member]:
    """Return the ``count`` nearest on each side of ``place``."""
    right = sorted(members, key=lambda m: (clockwise(place, m.ring_id), m.uid))[:count]
    left = sorted(members, key=lambda m: (clockwise(m.ring_id, place), m.uid))[:count]
    return list(dict.fromkeys((*right, *left)))
