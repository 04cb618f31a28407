"""What brokers say to each other beyond the ring: secure links, revocations, named links."""

from __future__ import annotations

from typing import Annotated

import msgspec

from overlay.ids import WireCount, WireUid
from overlay.machine import Message
from overlay.security.revocation import MAX_LIST_BYTES, MAX_VOUCHER_BYTES
from ring.wire.messages import RingId

MAX_SECURE_LINKS = 256


class SecureState(Message, frozen=True):
    """To which brokers ``origin`` has secure links now; flooded, the highest version counts.

    ``withdrawn``: the broker is gone, as said by a neighbour that saw it go. ``complete``: its ring
    neighbours are all among those it has secure links to.
    """

    origin: WireUid
    incarnation: WireCount
    version: WireCount
    ring_id: RingId
    linked: Annotated[tuple[WireUid, ...], msgspec.Meta(max_length=MAX_SECURE_LINKS)]
    withdrawn: bool
    complete: bool = False


class SecureStatesWanted(Message, frozen=True):
    """Tell all lists of secure links again; the answer comes after them, with ``told`` set."""

    told: bool


class RevocationNotice(Message, frozen=True):
    """The authority's list of revoked identities, and who vouches for its signer (DER both).

    Between brokers it is flooded, the highest number counts; a client may hand one to its broker,
    and is told of those the broker knows.
    """

    crl: Annotated[bytes, msgspec.Meta(max_length=MAX_LIST_BYTES)]
    voucher: Annotated[bytes, msgspec.Meta(max_length=MAX_VOUCHER_BYTES)]


class LinkDeclared(Message, frozen=True):
    """The operator of the sender has named this link: events may take it."""
