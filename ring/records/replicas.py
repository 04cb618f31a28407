"""What others own, as far as they told us: copies of records, or the claims alone.

The counterpart of :mod:`ring.records.backups`. Each owner's entries are summed up as it sums them;
where the sums differ, its index is gone through and missing bytes are asked for.

Claims meet here. Of two claims to one key the better one is kept, and the other's owner hears of
it, but only from the better one's owner itself (:class:`~ring.wire.record_messages.Dispute` asks it
to speak up): what we remember of a third broker may be out of date, and a record that is fenced on
hearsay would have no owner at all.

Departs from the paper, which does not treat a record with two owners: hence the fence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from overlay.ids import Nanos, Peer
from ring.circle.links import RingLinks
from ring.core import Core
from ring.records.backups import Backups
from ring.records.claims import (
    MAX_RECORDS,
    MAX_RECORDS_BYTES,
    add_marks,
    below,
    content_of,
    mark_of,
    outranks,
)
from ring.wire.record_messages import (
    Dispute,
    Entry,
    Fence,
    Forget,
    IndexRequest,
    RecordIndex,
    RecordRequest,
    RecordSummary,
    Replicate,
    SummaryAgreed,
)

MAX_OWNERS = 32
MAX_KEPT_BYTES = 4 * MAX_RECORDS_BYTES  #: of all owners
SILENT = 2  #: after so many times the time between summaries we ask what became of an owner
RETAIN = 6  #: an owner that is silent for so many times the time between summaries is forgotten


@dataclass(slots=True)
class Held:
    """All that one owner has told us."""

    peer: Peer
    place: int  #: its ring id
    heard_at: Nanos
    keys: dict[str, None] = field(default_factory=dict)
    total: int = 0  #: sum of the marks of all entries
    size_bytes: int = 0
    summary: RecordSummary | None = None
    agreed: int = -1  #: serial of the summary last agreed to
    syncing_since: Nanos | None = None  #: its index is being gone through
    missing: dict[str, None] = field(default_factory=dict)  #: keys of bytes asked for
    gone_at: Nanos | None = None  #: it died or left: its records are an estate
    is_lone: bool = False  #: and nobody bore witness: we may have been cut off
    is_silent: bool = False  #: or we do not know at all what became of it

    @property
    def uid(self) -> str:
        """The owner's uid."""
        return self.peer.uid

    @property
    def load(self) -> int:
        """The owner's load in thousandths of full load, as announced last; 0 at first."""
        return self.summary.load if self.summary is not None else 0


@dataclass(slots=True)
class Replica:
    """One record of another broker. The bytes may be older than the entry, or none."""

    entry: Entry
    held: Held
    body: bytes | None = None
    content: int = 0  #: digest of ``body``
    mark: int = 0  #: what the entry adds to the owner's sum; 0 while its bytes are missing
    is_spare: bool = False  #: bytes kept although no longer asked to, for a while


class Replicas:
    """Records and claims of others, by key and by owner."""

    def __init__(self, core: Core, links: RingLinks, backups: Backups) -> None:
        self._core = core
        self._links = links
        self._backups = backups
        self.records: dict[str, Replica] = {}
        self.owners: dict[str, Held] = {}
        self.estates: list[Held] = []  #: of the dead and departed, not all claimed yet
        #: Say whether that claim of ``uid`` is one that we have offered, and not been answered yet.
        self.is_offered: Callable[[str, Entry], bool] = lambda uid, entry: False
        self._bytes = 0

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def on_summary(self, uid: str, summary: RecordSummary) -> None:
        """An owner counts its records: compare copies, and ask for what is missing."""
        held = self._held(uid)
        if held is None:
            return
        is_same_link = held.heard_at >= self._links.up[uid].since
        if held.summary and is_same_link and summary.serial < held.summary.serial:
            return
        if held.summary is not None and held.summary.holder is not summary.holder:
            held.syncing_since = None  # its index has other entries now: begin anew
        held.summary, held.heard_at = summary, self._core.now
        held.agreed = -1  # the serial may be the same, but what it covers has changed
        if summary.leaving:
            self._backups.leavers[uid] = None
        else:
            self._backups.leavers.pop(uid, None)
        if summary.count == 0:
            for key in list(held.keys):
                self._remove(key)
        self._compare(held, may_ask=True)

    def on_index(self, uid: str, index: RecordIndex) -> None:
        """Take a part of the owner's index; ask for the rest, and for what is missing."""
        held = self.owners.get(uid)
        if held is None:
            return
        listed = {entry.key for entry in index.entries}
        upto = index.entries[-1].key if index.entries else index.after
        for key in list(held.keys):
            if key > index.after and (index.last or key <= upto) and key not in listed:
                self._remove(key)
        lacking = [e.key for e in index.entries if self._apply(held, e, None, is_listed=True)]
        if lacking:
            held.missing.update(dict.fromkeys(lacking))
            self._core.send(uid, RecordRequest(tuple(lacking)))
        if index.last or not index.entries:
            held.syncing_since = self._core.now if held.missing else None
            self._compare(held, may_ask=False)
        else:
            held.syncing_since = self._core.now
            self._core.send(uid, IndexRequest(upto))

    def on_replicate(self, uid: str, message: Replicate) -> None:
        """A copy of one record; an older version than the one held changes nothing."""
        held = self._held(uid)
        if held is not None:
            held.missing.pop(message.entry.key, None)
            self._apply(held, message.entry, message.body)
            self._compare(held, may_ask=False)

    def on_forget(self, uid: str, message: Forget) -> None:
        """The owner has given the record up; of anybody else's the word does not count."""
        held = self.owners.get(uid)
        if held is not None and message.key in held.keys:
            self._remove(message.key)

    def on_fence(self, uid: str, message: Fence) -> None:
        """The sender owns what we think is ours, or ours are the better claims after all."""
        for entry in message.entries:
            own = self._backups.own.get(entry.key)
            if own is None:
                continue
            held = self._held(uid)
            if held is not None:
                self._apply(held, entry, None)
            elif outranks(own.entry, self._core.peer.uid, entry, uid):
                self._core.send(uid, Fence((own.entry,)))
            else:  # over a link made for this message: it stands far away, so we keep no copy
                self._backups.lose(entry.key, uid, entry)

    def on_dispute(self, uid: str, message: Dispute) -> None:
        """A record of ours has two owners: with the better claim, fence the other."""
        own = self._backups.own.get(message.entry.key)
        rival = message.rival
        if own is None or rival.uid == self._core.peer.uid:
            return
        if outranks(own.entry, self._core.peer.uid, message.entry, rival.uid):
            self._links.tell(rival, Fence((own.entry,)))

    # ── owners come and go ────────────────────────────────────────────────────────────────────

    def on_gone(self, uid: str, incarnation: int, *, witnessed: bool = True) -> bool:
        """A life of ``uid`` is over; returns whether it left records."""
        self._backups.leavers.pop(uid, None)
        held = self.owners.get(uid)
        if held is None or held.peer.incarnation > incarnation:
            return False
        del self.owners[uid]
        if not held.keys:
            return False
        held.is_lone = not witnessed
        self._bequeath(held)
        return True

    def remove(self, key: str) -> Replica | None:
        """Take one record out, as when we own it from now on."""
        return self._remove(key)

    def keep(self, entry: Entry, peer: Peer, place: int, body: bytes) -> None:
        """Note that ``peer`` owns a record that was ours."""
        held = self._held_of(peer, place)
        if held is not None and entry.key not in self.records:
            replica = Replica(entry, held, body, content_of(body), is_spare=True)
            self._attach(replica)

    def sweep(self) -> None:
        """Forget claims that nobody has mentioned for long, and bytes kept for the transition.

        Copies of an owner that is silent become an estate: they may be the last ones.
        """
        core = self._core
        now, retain = core.now, RETAIN * core.config.reconcile_ns
        for uid, held in list(self.owners.items()):
            silent_ns = now - held.heard_at
            is_lost = uid not in self._links.up and any(
                self.records[key].body is not None for key in held.keys
            )
            if silent_ns > retain or (is_lost and silent_ns > SILENT * core.config.reconcile_ns):
                self._lose_sight(held)
        for replica in self.records.values():
            is_owned = replica.held.gone_at is None and replica.held.uid in self._links.up
            if is_owned and replica.entry.version == 0 and replica.body:
                if replica.is_spare:
                    replica.held.size_bytes -= len(replica.body)
                    self._bytes -= len(replica.body)
                    replica.body, replica.content = None, 0
                replica.is_spare = not replica.is_spare

    def clear(self) -> dict[str, Replica]:
        """Forget everything; returns the records of the dead that we have bytes of."""
        for held in self.estates:
            if held.is_silent:  # it may live, and then its own claims are to win
                for key in held.keys:
                    self.records[key].entry = below(self.records[key].entry)
        left = {
            key: self.records[key]
            for held in self.estates
            for key in held.keys
            if self.records[key].body is not None
        }
        self.records.clear()
        self.owners.clear()
        self.estates.clear()
        self._bytes = 0
        return left

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _bequeath(self, held: Held) -> None:
        """Make an estate of what an owner has left."""
        held.gone_at = self._core.now
        held.missing.clear()
        self.estates.append(held)
        if len(self.estates) > MAX_OWNERS:
            for key in list(self.estates[0].keys):
                self._remove(key)

    def _lose_sight(self, held: Held) -> None:
        """Keep of a silent owner the copies, until it is known who owns them."""
        del self.owners[held.uid]
        for key in list(held.keys):
            if self.records[key].body is None:
                self._remove(key)
        if held.keys:
            held.is_silent = True
            self._bequeath(held)

    def _held(self, uid: str) -> Held | None:
        link = self._links.up[uid]
        return self._held_of(link.peer, link.member.ring_id) if link.member else None

    def _held_of(self, peer: Peer, place: int) -> Held | None:
        held = self.owners.get(peer.uid)
        if held is not None and held.peer.incarnation < peer.incarnation:
            self.on_gone(peer.uid, held.peer.incarnation)
            held = None
        if held is None:
            if len(self.owners) >= MAX_OWNERS:
                return None
            held = self.owners[peer.uid] = Held(peer, place, self._core.now)
            self._backups.keep_comparing()
        held.place = place
        return held

    def _apply(
        self, held: Held, entry: Entry, body: bytes | None, *, is_listed: bool = False
    ) -> bool:
        """Take what an owner says of one record; returns whether its bytes are missing.

        ``is_listed``: its index says so; the claim counts although it made a later one before.
        """
        core, key = self._core, entry.key
        own = self._backups.own.get(key)
        if own is not None:
            if outranks(own.entry, core.peer.uid, entry, held.uid):
                self._links.tell(held.peer, Fence((own.entry,)))
                return False
            if not self.is_offered(held.uid, entry):  # else its answer says when it is safe there
                self._backups.lose(key, held.uid, entry)
            body = own.body if body is None else body
        known = self.records.get(key)
        if known is not None and outranks(known.entry, known.held.uid, entry, held.uid):
            if known.held is held:
                if not is_listed:
                    return False  # overtaken by its own later claim
            elif known.held.gone_at is None:
                self._links.tell(known.held.peer, Dispute(entry, held.peer))
                return False
        if known is None and not self._has_room(held, body):
            return False
        replica = Replica(entry, held)
        if known is not None:
            replica.body, replica.content = known.body, known.content
            self._remove(key)
        if body is not None and self._has_room(held, body):
            replica.body, replica.content = body, content_of(body)
        if entry.version == 0 or replica.content == entry.content:
            replica.mark = mark_of(entry)
        self._attach(replica)
        return replica.mark == 0

    def _has_room(self, held: Held, body: bytes | None) -> bool:
        more = len(body or b"")
        return (
            len(held.keys) < MAX_RECORDS
            and held.size_bytes + more <= MAX_RECORDS_BYTES
            and self._bytes + more <= MAX_KEPT_BYTES
        )

    def _attach(self, replica: Replica) -> None:
        held, key = replica.held, replica.entry.key
        self.records[key] = replica
        held.keys[key] = None
        held.total = add_marks(held.total, replica.mark)
        held.size_bytes += len(replica.body or b"")
        self._bytes += len(replica.body or b"")

    def _remove(self, key: str) -> Replica | None:
        replica = self.records.pop(key, None)
        if replica is not None:
            held = replica.held
            del held.keys[key]
            held.missing.pop(key, None)
            held.total = add_marks(held.total, -replica.mark)
            held.size_bytes -= len(replica.body or b"")
            self._bytes -= len(replica.body or b"")
            if held.gone_at is not None and not held.keys:
                self.estates = [estate for estate in self.estates if estate is not held]
        return replica

    def _compare(self, held: Held, *, may_ask: bool) -> None:
        """Agree to the owner's latest summary, or go through its index."""
        summary, uid = held.summary, held.uid
        if summary is None or uid not in self._links.up:
            return
        if len(held.keys) == summary.count and held.total == summary.digest:
            held.syncing_since = None
            held.missing.clear()
            if held.agreed != summary.serial:
                held.agreed = summary.serial
                self._core.send(uid, SummaryAgreed(summary.serial))
            return
        since, linked = held.syncing_since, self._links.up[uid].since
        if since is not None and since < linked:
            since = None  # what was asked went down with the link before this one
        busy = since is not None and since + self._core.config.reconcile_ns > self._core.now
        if may_ask and not busy:
            held.syncing_since = self._core.now
            self._core.send(uid, IndexRequest(""))
