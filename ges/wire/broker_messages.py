"""What brokers say to each other beyond the ring: revocations, named links."""

from __future__ import annotations

from typing import Annotated

import msgspec

from overlay.machine import Message
from overlay.security.revocation import MAX_LIST_BYTES, MAX_VOUCHER_BYTES


class RevocationNotice(Message, frozen=True):
    """The authority's list of revoked identities, and who vouches for its signer (DER both).

    Between brokers it is flooded, the highest number counts; a client may hand one to its broker,
    and is told of those the broker knows.
    """

    crl: Annotated[bytes, msgspec.Meta(max_length=MAX_LIST_BYTES)]
    voucher: Annotated[bytes, msgspec.Meta(max_length=MAX_VOUCHER_BYTES)]


class LinkDeclared(Message, frozen=True):
    """The operator of the sender has named this link: events may take it."""
