"""Wire messages on records and duties (paper 004, sections 3.2 and 3.4).

What they are for: :mod:`ring.records.backups`, :mod:`ring.records.replicas`,
:mod:`ring.records.duties`, :mod:`ring.records.handover`, :mod:`ring.records.reclaim`,
:mod:`ring.records.homes`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from overlay.ids import Peer, WireCount, WireUid
from overlay.machine import Message
from ring.wire.messages import Hops, Neighbours, RingId

#: With the rest of its message it fits into a control frame, also on a way round (``Relay``).
MAX_RECORD_BYTES = 48 * 1024
MAX_ENTRIES = 128
MAX_KEY_CHARS = 64
MAX_LOAD = 1_000_000  #: in thousandths of what a broker can bear

RecordKey = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KEY_CHARS)]
After = Annotated[str, msgspec.Meta(max_length=MAX_KEY_CHARS)]  #: a key; before all: ""
Body = Annotated[bytes, msgspec.Meta(max_length=MAX_RECORD_BYTES)]
Permille = Annotated[int, msgspec.Meta(ge=0, le=MAX_LOAD)]
HolderUids = Annotated[tuple[WireUid, ...], msgspec.Meta(max_length=4)]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A claim to a record, and what it holds now.

    A broker that keeps no copy is told the claim alone: ``version`` and ``content`` are 0.
    """

    key: RecordKey
    epoch: WireCount
    place: RingId  #: of the first owner, when it made the record: here claims meet
    version: WireCount
    content: WireCount  #: digest of the bytes


Entries = Annotated[tuple[Entry, ...], msgspec.Meta(max_length=MAX_ENTRIES)]
Keys = Annotated[tuple[RecordKey, ...], msgspec.Meta(max_length=MAX_ENTRIES)]


class RecordSummary(Message, frozen=True):
    """All records of the sender as a sum of digests, as they were after its change ``serial``."""

    serial: WireCount
    count: WireCount
    digest: WireCount
    holders: HolderUids  #: who keeps copies
    holder: bool  #: you are one of them
    load: Permille  #: the sender's; 1000 is full
    leaving: bool  #: the sender is on its way out: give it nothing more


class SummaryAgreed(Message, frozen=True):
    """I have all that your summary ``serial`` covers."""

    serial: WireCount


class IndexRequest(Message, frozen=True):
    """My copies differ from your summary: which records do you have, after this key?"""

    after: After


class RecordIndex(Message, frozen=True):
    """The sender's records in order of their keys, from ``after`` on; ``last``: and no more."""

    after: After
    entries: Entries
    last: bool


class RecordRequest(Message, frozen=True):
    """Send me these records."""

    keys: Keys


class Replicate(Message, frozen=True):
    """A record of the sender, new or changed; without the bytes for those who keep no copy."""

    entry: Entry
    body: Body | None


class Forget(Message, frozen=True):
    """The sender does not own this record any more."""

    key: RecordKey


class Fence(Message, frozen=True):
    """The sender owns these records, by better claims than the receiver's."""

    entries: Entries


class Dispute(Message, frozen=True):
    """``rival`` claims a record that I believe to be yours: tell it so, if it is."""

    entry: Entry
    rival: Peer


class Offer(Message, frozen=True):
    """Take this duty over, under the claim in ``entry``."""

    entry: Entry
    body: Body | None  #: None: you have it
    weight: Permille  #: the load it brings, as the sender estimates it
    must: bool  #: the sender leaves: take it even if you are loaded


class Answer(StrEnum):
    """What becomes of an offer."""

    TAKEN = "taken"
    REFUSED = "refused"
    WITHOUT_BODY = "without_body"  #: send the bytes


class OfferAnswer(Message, frozen=True):
    """The answer to an :class:`Offer`; ``TAKEN`` once the new owner's own backups have it."""

    key: RecordKey
    epoch: WireCount
    answer: Answer


class Reclaim(Message, frozen=True):
    """The sender lost its place and is back: which of these records were taken over meanwhile?

    Those that were not are its own again, and the receiver takes none of them over. ``place`` is
    where the sender was on the ring. Or the sender has copies of a dead broker's records, and
    ``place`` is where that one was: the claims are then smaller than those of the dead broker.
    """

    entries: Entries
    place: RingId


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """A record that has another owner now."""

    entry: Entry
    owner: WireUid


class ReclaimAnswer(Message, frozen=True):
    """The answer to a :class:`Reclaim`, with those known to be nearest to the place."""

    taken: Annotated[tuple[Taken, ...], msgspec.Meta(max_length=MAX_ENTRIES)]
    free: Keys
    around: Neighbours


class Claims(Message, frozen=True):
    """``owner`` owns these records, whose place is ``home``; passed on to the nearest to it."""

    owner: Peer
    entries: Entries
    home: RingId
    hops: Hops
