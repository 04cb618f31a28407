"""Identities and units shared by every package.

A broker or client has a permanent *uid*: 128 random bits, written as 32 lower-case hexadecimal
digits. That of a client without a certificate is the hash of a secret, so that who sees the uid
cannot greet by it. An *incarnation* counts the lives of one uid: a process that restarts, or that
was wrongly declared dead and comes back, continues under the same uid with a larger incarnation.
"""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum
from typing import Annotated, NewType

import msgspec

from overlay.errors import ConfigError

Uid = NewType("Uid", str)

#: Integer nanoseconds since the start of the process (or of the simulated world). Integers, because
#: float seconds do not survive the trip through two clocks unchanged.
Nanos = int

NANOS_PER_SECOND = 1_000_000_000

_UID = re.compile(r"[0-9a-f]{32}")

SECRET_BYTES = 32  #: of the secret that a client without a certificate draws
_UID_OF_SECRET = b"chordal uid of secret\0"  #: no other hash of a secret is a uid

#: A uid as it may stand in a wire message.
WireUid = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$", max_length=32)]
#: The secret that a uid is the hash of: 128 bits or more.
WireSecret = Annotated[bytes, msgspec.Meta(min_length=16, max_length=64)]
#: A URL as it may stand in a wire message; its form is checked in greetings and when it is used.
WireUrl = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
#: Text for people in a wire message.
WireText = Annotated[str, msgspec.Meta(max_length=500)]
#: A count that only grows.
WireCount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class LinkClass(StrEnum):
    """Class of a link and of the events that ask for it (paper 004, section 3.3)."""

    NORMAL = "normal"  #: plain TCP
    EXPRESS = "express"  #: a connection of its own beside a normal link whose latency is in range
    SECURE = "secure"  #: mutually authenticated TLS 1.3 under the overlay's own authority


class Peer(msgspec.Struct, frozen=True, array_like=True):
    """A broker as others reach it."""

    uid: WireUid
    incarnation: WireCount
    url: WireUrl
    secure: bool = False  #: holds an identity, so secure links to it are possible
    declared: bool = False  #: events take those of its links alone that an end has named


def parse_uid(text: str) -> Uid:
    """Return ``text`` as a uid.

    Raises:
        ConfigError: it is not 32 lower-case hexadecimal digits.
    """
    if not _UID.fullmatch(text):
        raise ConfigError(f"{text!r} is not a uid: 32 lower-case hexadecimal digits")
    return Uid(text)


def uid_of(secret: bytes) -> Uid:
    """Return the uid that ``secret`` proves; who knows the uid alone does not find the secret."""
    return Uid(hashlib.sha256(_UID_OF_SECRET + secret).hexdigest()[:32])


def short(uid: str) -> str:
    """Return the first digits of a uid, for logs and tables."""
    return uid[:8]


def nanos(seconds: float) -> Nanos:
    """Convert seconds, as people write them, to nanoseconds, as the protocol counts them."""
    return round(seconds * NANOS_PER_SECOND)
