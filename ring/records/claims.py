"""Opaque records and the claims to them: what neighbours back up (paper 004, section 3.2).

A record is what a broker must not take to the grave: a key, bytes and a version that grows with
each write. The broker that answers for it is its *owner*, by a *claim*: an epoch that grows each
time the record changes hands, and the place on the ring of its first owner, its home
(:mod:`ring.records.homes`). Of two claims to one key the later epoch counts, then the smaller
place, then the smaller uid of the owner; so any two brokers that compare two claims agree, and an
owner that was taken for dead finds its claim too small when it comes back.

Keys belong to the whole ring: the layer above makes them unique, as by putting a uid in.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from overlay.circular import following, is_after, preceding
from ring.wire.record_messages import Entry

MAX_RECORDS = 16_384  #: records of one broker, whether it owns them or we keep them for it
MAX_RECORDS_BYTES = 64 * 1024 * 1024  #: and their size in sum

_MASK_63_BITS = 2**63 - 1


@dataclass(slots=True)
class Own:
    """A record this broker owns."""

    entry: Entry
    body: bytes
    changed: int  #: the change of our records that made it as it is
    previous: str | None = None  #: uid of the owner before, if the duty was taken over
    taken_from: Entry | None = None  #: its claim, if nobody else bore witness to its death


def content_of(body: bytes) -> int:
    """Return a digest of ``body``; never 0, which stands for no body."""
    return _digest(body) or 1


def mark_of(entry: Entry) -> int:
    """Return a digest of one entry; sums of them, modulo 2^63, tell sets of entries apart."""
    return _digest(msgspec.msgpack.encode(entry))


def add_marks(total: int, mark: int) -> int:
    """Return the sum of two digests; to take one out, add its negative."""
    return (total + mark) & _MASK_63_BITS


def claim_of(entry: Entry) -> Entry:
    """Return the entry without what it says of the contents."""
    return Entry(entry.key, entry.epoch, entry.place, 0, 0)


def next_claim(entry: Entry) -> Entry:
    """Return the claim after that of ``entry``: the broker that takes the record over makes it."""
    return Entry(entry.key, following(entry.epoch), entry.place, 0, 0)


def below(claim: Entry) -> Entry:
    """Return a claim that is smaller than ``claim``, and so is the next one after it.

    The next: a record that is claimed anew, or taken over, gets the following epoch.
    """
    return msgspec.structs.replace(claim, epoch=preceding(preceding(claim.epoch)))


def outranks(entry: Entry, owner: str, other: Entry, other_owner: str) -> bool:
    """Say whether the claim of ``owner`` is better than that of ``other_owner``."""
    if is_after(entry.epoch, other.epoch) or is_after(other.epoch, entry.epoch):
        return is_after(entry.epoch, other.epoch)
    return (entry.place, owner) < (other.place, other_owner)


def fraction_of(key: str) -> int:
    """Return a number from 0 to 999 that depends on nothing but the key."""
    return _digest(key.encode()) % 1000


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") & _MASK_63_BITS
