"""One interest: something that somebody asked for, in a form that is equal where the meaning is.

For example, a client subscribes to ``+/#`` with normal events alone. Its interest is ``#`` of the
class normal: both filters match the same topics, and the shorter one is the canonical form.

An interest *covers* another one if every event that the other one asks for is asked for by it. A
queue group is the members on one filter, and whoever chooses among them must know of it: so an
interest with a group covers only those of the same group and filter, and one without a group covers
none with one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from hashlib import blake2b

import msgspec

from ges.matching.containment import covers as filter_covers
from ges.wire.profile_messages import ALL_CLASSES, MAX_GROUP_NAME, Interest
from ges.wire.realms import Realm
from ges.wire.topics import ONE, REST, check_filter
from overlay.errors import ConfigError
from overlay.ids import LinkClass

_MASK_63_BITS = 2**63 - 1
_encode = msgspec.msgpack.Encoder().encode


class Engine(IntEnum):
    """Which kind of filter an interest has. A kind that is not known here wants everything."""

    EVERYTHING = 0  #: no filter: all events, those on topics of the system among them
    TOPICS = 1  #: a filter as in :mod:`ges.wire.topics`


#: The bit of each class of events.
CLASS_BITS = {LinkClass.NORMAL: 1, LinkClass.EXPRESS: 2, LinkClass.SECURE: 4}


def interest_in(
    text: str,
    link_class: LinkClass | None = None,
    group: str | None = None,
    *,
    secure: bool = True,
    realm: int = Realm.ALL,
) -> Interest:
    """Return the interest of a subscription to a topic filter.

    ``link_class``: only events of that class; None: of all classes. ``secure``: whether the hop to
    the client is; secure events never travel on one that is not, so nobody need send any.
    ``realm``: only events that are published in the same unit of that level.

    Raises:
        TopicError: the filter is malformed.
        ConfigError: it is for secure events alone and the hop is not secure, or the name of the
            group is empty or too long.
    """
    check_filter(text)
    classes = ALL_CLASSES if link_class is None else CLASS_BITS[link_class]
    if not secure:
        classes &= ~CLASS_BITS[LinkClass.SECURE]
    if not classes:
        raise ConfigError(f"{text}: no secure events go over a plain hop; attach over chordals://")
    if group is not None and not 0 < len(group) <= MAX_GROUP_NAME:
        raise ConfigError(
            f"the name of a group has 1 to {MAX_GROUP_NAME} characters, not {len(group)}"
        )
    return Interest(Engine.TOPICS, canonical(text), classes, group, realm)


def everything(classes: int = ALL_CLASSES, realm: int = Realm.ALL) -> Interest:
    """Return the interest in all events of some classes."""
    return Interest(Engine.EVERYTHING, "", classes, None, realm)


def canonical(text: str) -> str:
    """Return the one filter of those that match the same topics; ``text`` is a checked filter."""
    # A topic has a level at least, and neither filter matches one of the system. No other two
    # filters match the same topics.
    return REST if text == f"{ONE}/{REST}" else text


def covers(wide: Interest, narrow: Interest) -> bool:
    """Say whether every event that ``narrow`` asks for is asked for by ``wide``."""
    if narrow.classes & ~wide.classes or wide.group != narrow.group:
        return False
    if wide.realm < narrow.realm or (wide.group is not None and wide.realm != narrow.realm):
        return False
    if wide.engine == Engine.EVERYTHING:
        return True
    if wide.engine != narrow.engine:
        return False
    if wide.engine != Engine.TOPICS:
        return wide.filter == narrow.filter  # of other kinds nothing is known
    if wide.group is not None:
        return wide.filter == narrow.filter
    return filter_covers(wide.filter, narrow.filter)


def order(interest: Interest) -> tuple[int, str, int, str, int]:
    """Return what interests are sorted by."""
    key = interest.engine, interest.filter, interest.classes
    return *key, interest.group or "", interest.realm


def mark_of(interest: Interest) -> int:
    """Return a hash of an interest, with 63 bits."""
    told: object = interest
    if interest.realm == Realm.ALL:  # as brokers reckon it that know of no realms
        told = (interest.engine, interest.filter, interest.classes, interest.group)
    found = blake2b(_encode(told), digest_size=8).digest()
    return int.from_bytes(found, "big") & _MASK_63_BITS


def add_marks(total: int, mark: int) -> int:
    """Return the sum of two hashes; to take one out, add its negative."""
    return (total + mark) & _MASK_63_BITS


def digest_of(interests: Iterable[Interest]) -> int:
    """Return the digest of a set: the sum of the hashes of its members, modulo 2^63."""
    return sum(map(mark_of, interests)) & _MASK_63_BITS


def size_of(interest: Interest) -> int:
    """Return how many bytes of a message an interest takes at most."""
    return 16 + len(interest.filter.encode()) + len((interest.group or "").encode())
