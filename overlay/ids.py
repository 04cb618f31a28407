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
from typing import Annotated, NewType, Self

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
MAX_COUNT = 2**63 - 1  #: the highest number in any message, and of a life in any header
MAX_SEQUENCE = MAX_COUNT - 1  #: of an event: a message may say what comes behind the last one
#: A count that only grows.
WireCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
#: The number of an event of its publisher.
WireSequence = Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQUENCE)]


class LinkClass(StrEnum):
    """Class of a link and of the events that ask for it (paper 004, section 3.3).

    A normal link is plain TCP, or TLS in a closed ring. An express link is a connection of its own
    beside a normal one whose latency is in range. A secure link is mutually authenticated TLS 1.3
    under the overlay's own authority. The table says how they differ, so that no other place need
    compare them.
    """

    #           word       reliable  ordered  secret  timed  may wait  base
    NORMAL = "normal", True, True, False, False, False, True
    EXPRESS = "express", False, False, False, True, False, False
    SECURE = "secure", True, True, True, False, True, False

    is_reliable: bool  #: events that a lost link has swallowed are sent again
    is_ordered: bool  #: events of one publisher come in the order of their numbers, each once
    is_secret: bool  #: nothing of an event goes over a link or hop of another class
    is_timed: bool  #: a link has a connection for itself, an event a budget of time, and no memory
    may_wait: bool  #: an event waits at its broker for a path, if its publisher says how long
    is_base: bool  #: links carry the protocol, and links of other classes stand beside them

    def __new__(
        cls,
        word: str,
        is_reliable: bool = False,
        is_ordered: bool = False,
        is_secret: bool = False,
        is_timed: bool = False,
        may_wait: bool = False,
        is_base: bool = False,
    ) -> Self:
        """Make a row of the table."""
        found = str.__new__(cls, word)
        found._value_ = word
        found.is_reliable, found.is_ordered, found.is_secret = is_reliable, is_ordered, is_secret
        found.is_timed, found.may_wait, found.is_base = is_timed, may_wait, is_base
        return found


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
