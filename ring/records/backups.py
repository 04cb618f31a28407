"""The records this broker owns, and the copies of them on its ring neighbours.

Copies go to 1 to 4 neighbours (:mod:`ring.records.holders`). A change is pushed to them at once,
with others of the same moment; then a *summary*, a sum of digests, is what they agree to or not.
One that does not agree asks for the *index*, the claims and digests of all records, and for the
bytes it lacks (:mod:`ring.records.replicas`). Summaries also go round now and then, so that any
loss heals. The other ring neighbours are told the claims without the bytes: a broker that claims a
record that is owned already should meet one that knows.

A token bucket bounds the bytes a second to one neighbour. When neighbours change, an old holder
keeps its copies until the new ones have agreed.

Departs from the paper, which backs up on "the neighbours" (004, section 3.2) and says no more:
digests, rates and the order of filling and dropping are this project's.
"""

from __future__ import annotations

from itertools import islice

from sortedcontainers import SortedList

from overlay.circular import following
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core, Timer
from ring.facts import DutyLost, RecordRefused
from ring.records.claims import (
    MAX_RECORDS,
    MAX_RECORDS_BYTES,
    Own,
    add_marks,
    claim_of,
    content_of,
    mark_of,
)
from ring.records.holders import BackupStatus, Target, holders_among
from ring.wire.messages import Member
from ring.wire.record_messages import (
    MAX_ENTRIES,
    MAX_KEY_CHARS,
    MAX_LOAD,
    MAX_RECORD_BYTES,
    Entry,
    Forget,
    IndexRequest,
    RecordIndex,
    RecordRequest,
    RecordSummary,
    Replicate,
    SummaryAgreed,
)

ENTRY_BYTES = 64  #: of a message, beside key and contents; an estimate
MAX_DROPPED = 4096  #: records remembered that the layer above gave up for good
LOAD_STEP = 50  #: a load that has changed by less, in thousandths, is not announced anew


class Backups:
    """What this broker owns, and who has how much of it."""

    def __init__(self, core: Core, links: RingLinks, neighbourhood: Neighbourhood) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self.own: dict[str, Own] = {}
        self.dropped: dict[str, Entry] = {}  #: given up for good, by key; the latest come last
        self._keys = SortedList()  #: of them, as an index goes through them
        self.targets: dict[str, Target] = {}
        self.leavers: dict[str, None] = {}  #: neighbours on their way out
        self.leaving = False  #: and ourselves
        self.load = 0  #: in thousandths, as the layer above said, with what was taken since
        self.announced = 0  #: the load, as neighbours know it
        self._changes = 0
        self._bytes = 0
        self._full = 0  #: sum of the digests of all entries ...
        self._claims = 0  #: ... and of the claims alone

    # ── own records ───────────────────────────────────────────────────────────────────────────

    def refuses(self, key: str, body: bytes) -> str | None:
        """Say why a record cannot be put, or None."""
        old = self.own.get(key)
        size = self._bytes + len(body) - (len(old.body) if old else 0)
        if not key or len(key) > MAX_KEY_CHARS:
            return f"a key has 1 to {MAX_KEY_CHARS} characters"
        if len(body) > MAX_RECORD_BYTES:
            return f"{len(body)} bytes, a record has at most {MAX_RECORD_BYTES}"
        if (old is None and len(self.own) >= MAX_RECORDS) or size > MAX_RECORDS_BYTES:
            return f"this broker has {len(self.own)} records of {self._bytes} bytes: too many"
        return None

    def put(self, key: str, body: bytes) -> None:
        """Write a record we own, or a new one."""
        core, old = self._core, self.own.get(key)
        why = self.refuses(key, body)
        if why is None and old is None and core.ring_id is None:
            why = "this broker has no place on the ring, which would be the record's home"
        if why is not None:
            core.notify(RecordRefused(key, why))
            return
        entry = old.entry if old else Entry(key, 1, core.ring_id or 0, 0, 0)
        previous, taken_from = (old.previous, old.taken_from) if old else (None, None)
        version = following(entry.version)
        self.hold(entry, body, previous, version=version, taken_from=taken_from)
        if (Timer.COPY, "") not in core.timers:  # put off by each write, it would not run out
            core.arm(Timer.COPY, "", core.config.backup_ns)

    def hold(
        self,
        claim: Entry,
        body: bytes,
        previous: str | None,
        *,
        version: int,
        taken_from: Entry | None = None,
    ) -> None:
        """Own ``body`` under the epoch and place of ``claim``.

        ``previous``: uid of the owner before; ``taken_from``: its claim, if only we say it is dead.
        """
        old = self._take_out(claim.key)
        entry = Entry(claim.key, claim.epoch, claim.place, version, content_of(body))
        self._changes += 1
        self.own[claim.key] = Own(entry, body, self._changes, previous, taken_from)
        self._keys.add(claim.key)
        self.dropped.pop(claim.key, None)
        self._bytes += len(body)
        self._count(entry, 1)
        same_claim = old is not None and claim_of(old.entry) == claim_of(entry)
        for target in self.targets.values():
            if target.holder or not same_claim:
                target.pending[claim.key] = None
        self.keep_comparing()

    def keep_comparing(self) -> None:
        """Have copies compared now and then, from the first record on."""
        core = self._core
        if (Timer.RECONCILE, "") not in core.timers:
            core.arm(Timer.RECONCILE, "", core.jitter(core.config.reconcile_ns))

    def lower(self, key: str, claim: Entry) -> None:
        """Own a record under a smaller claim: the owner of another one is to win."""
        own = self.own[key]
        for uid in self.targets:
            if uid in self._links.up:  # of our claims it would keep the later one
                self._core.send(uid, Forget(key))
        self.hold(claim, own.body, own.previous, version=own.entry.version)

    def drop(self, key: str) -> Own | None:
        """Own a record no more."""
        own = self._take_out(key)
        if own is not None:
            self._changes += 1
            for target in self.targets.values():
                target.pending[key] = None
        return own

    def drop_for_good(self, key: str) -> Own | None:
        """Own a record no more, and nobody is to: copies that others still have are void."""
        own = self.drop(key)
        if own is not None:
            self.dropped[key] = own.entry
            if len(self.dropped) > MAX_DROPPED:
                del self.dropped[next(iter(self.dropped))]
        return own

    def lose(self, key: str, owner: str, entry: Entry) -> Own | None:
        """Give up a record that ``owner`` owns now, and say so."""
        own = self.drop(key)
        if own is not None:
            self._core.notify(DutyLost(key, own.body, owner, entry.epoch))
        return own

    def clear(self) -> dict[str, Own]:
        """Give up all records and copies; returns the records."""
        own, self.own = self.own, {}
        self._keys.clear()
        self.targets.clear()
        self.leavers.clear()
        self._bytes = self._full = self._claims = 0
        self._changes += 1
        return own

    # ── who keeps copies ──────────────────────────────────────────────────────────────────────

    @property
    def holders(self) -> dict[str, Member]:
        """The brokers that are to keep copies now."""
        hood, leavers = self._neighbourhood, self.leavers
        left = [member for member in hood.left if member.uid not in leavers]
        right = [member for member in hood.right if member.uid not in leavers]
        return holders_among(left, right, self._core.config.backups)

    @property
    def status(self) -> tuple[BackupStatus, ...]:
        """Who keeps our records, and whether they are up to date."""
        return tuple(BackupStatus(uid, not self.own or self._has_all(uid)) for uid in self.holders)

    def is_safe(self, key: str) -> bool:
        """Say whether all holders have the record as it is."""
        changed = self.own[key].changed
        return all(
            uid in self.targets and self.targets[uid].agreed >= changed for uid in self.holders
        )

    def has_latest(self, uid: str, key: str) -> bool:
        """Say whether ``uid`` keeps a copy of the record as it is."""
        target = self.targets.get(uid)
        own = self.own.get(key)
        return bool(target and own and target.holder and target.agreed >= own.changed)

    def follow(self) -> None:
        """Bring the targets in line with the pointers, and let old holders go."""
        self.leavers = {uid: None for uid in self.leavers if uid in self._links.up}
        adjacent, holders = self._neighbourhood.adjacent, self.holders
        for uid in adjacent:
            target = self.targets.get(uid)
            if target is None:
                self.targets[uid] = target = Target(uid, refilled_at=self._core.now)
            if uid in holders:
                if not target.holder:
                    target.holder = True
                    target.restart()
                    if self.own:
                        self._changes += 1  # a number that it did not agree to for the claims
                    target.holder_since = self._changes
                target.releasing = False
            elif target.holder:
                target.releasing = True
        for uid in [uid for uid in self.targets if uid not in adjacent]:
            target = self.targets[uid]
            target.releasing = True
            if uid not in self._links.up:
                del self.targets[uid]
        self._release(adjacent, holders)
        self.pump_all()

    def on_link_up(self, uid: str) -> None:
        """A holder is linked anew: compare all copies with it again."""
        if uid in self.targets:
            self.targets[uid].restart()

    # ── telling them ──────────────────────────────────────────────────────────────────────────

    def announce(self, load: int) -> None:
        """Note our load; tell if it has changed by much."""
        # Loads that came with duties add up.
        self.load = load = max(0, min(load, MAX_LOAD))
        if abs(load - self.announced) >= LOAD_STEP:
            self.announced = load
            self.compare()

    def compare(self) -> None:
        """Send everybody a summary."""
        for target in self.targets.values():
            target.asked = -1
        self.pump_all()

    def pump_all(self) -> None:
        """Send to every target what waits for it, within the rate; see :meth:`pump`."""
        for target in self.targets.values():
            self.pump(target)

    def pump(self, target: Target) -> None:
        """Send what waits for ``target``, as far as its rate allows; then a summary."""
        core, uid = self._core, target.uid
        if not core.joined or uid not in self._links.up:
            return
        target.refill(core.now, core.config.backup_rate)
        if target.index_after is not None and target.tokens > 0:
            self._send_index(target, target.index_after)
        while target.pending and target.tokens > 0:
            key = next(iter(target.pending))
            del target.pending[key]
            self._push(target, key)
        if target.tokens <= 0 and (target.pending or target.index_after is not None):
            core.arm(Timer.COPY, uid, target.wait_ns(core.config.backup_rate))
        elif target.asked != self._changes:
            self._summarise(target)

    def on_agreed(self, uid: str, answer: SummaryAgreed) -> None:
        """A holder has all that our summary counted, so old holders may be let go."""
        target = self.targets.get(uid)
        if target is not None and target.holder_since <= answer.serial <= self._changes:
            target.agreed = max(target.agreed, answer.serial)
            self._release(self._neighbourhood.adjacent, self.holders)

    def on_index_request(self, uid: str, request: IndexRequest) -> None:
        """A holder whose copies differ asks for the index after a key; answered within the rate."""
        target = self.targets.get(uid)
        if target is not None:
            target.index_after = request.after
            self.pump(target)

    def on_record_request(self, uid: str, request: RecordRequest) -> None:
        """A holder asks for the bytes of records that it lacks; sent within the rate."""
        target = self.targets.get(uid)
        if target is not None and target.holder:
            target.pending.update(dict.fromkeys(key for key in request.keys if key in self.own))
            self.pump(target)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _has_all(self, uid: str) -> bool:
        target = self.targets.get(uid)
        return target is not None and target.agreed >= self._changes

    def _take_out(self, key: str) -> Own | None:
        own = self.own.pop(key, None)
        if own is not None:
            self._keys.remove(key)
            self._bytes -= len(own.body)
            self._count(own.entry, -1)
        return own

    def _count(self, entry: Entry, sign: int) -> None:
        self._full = add_marks(self._full, sign * mark_of(entry))
        self._claims = add_marks(self._claims, sign * mark_of(claim_of(entry)))

    def _release(self, adjacent: dict[str, Member], holders: dict[str, Member]) -> None:
        """Let old holders drop their copies, once the new ones have everything."""
        releasing = [target for target in self.targets.values() if target.releasing]
        if not releasing or not all(not self.own or self._has_all(uid) for uid in holders):
            return
        for target in releasing:
            target.holder = target.releasing = False
            target.restart()
            if target.uid in adjacent:
                self.pump(target)
            else:
                del self.targets[target.uid]
                if target.told and target.uid in self._links.up:
                    self._core.send(target.uid, self._summary(target, dismissed=True))

    def _push(self, target: Target, key: str) -> None:
        own = self.own.get(key)
        if own is None:
            self._core.send(target.uid, Forget(key))
            target.tokens -= ENTRY_BYTES
        elif target.holder:
            self._core.send(target.uid, Replicate(own.entry, own.body))
            target.tokens -= ENTRY_BYTES + len(own.body)
        else:
            self._core.send(target.uid, Replicate(claim_of(own.entry), None))
            target.tokens -= ENTRY_BYTES

    def _send_index(self, target: Target, after: str) -> None:
        later = self._keys.irange(after, inclusive=(False, False))
        keys: list[str] = list(islice(later, MAX_ENTRIES + 1))
        entries = [self.own[key].entry for key in keys[:MAX_ENTRIES]]
        if not target.holder:
            entries = [claim_of(entry) for entry in entries]
        index = RecordIndex(after, tuple(entries), last=len(keys) <= MAX_ENTRIES)
        self._core.send(target.uid, index)
        target.tokens -= ENTRY_BYTES * len(entries)
        target.index_after = None

    def _summarise(self, target: Target) -> None:
        """Send a summary; a broker that never had anything to tell stays silent."""
        if not (target.told or self.own or self.announced or self.leaving):
            return
        target.told = True
        target.asked = self._changes
        self._core.send(target.uid, self._summary(target))

    def _summary(self, target: Target, *, dismissed: bool = False) -> RecordSummary:
        return RecordSummary(
            serial=self._changes,
            count=0 if dismissed else len(self.own),
            digest=0 if dismissed else self._full if target.holder else self._claims,
            holders=tuple(self.holders),
            holder=target.holder,
            load=self.announced,
            leaving=self.leaving,
        )
