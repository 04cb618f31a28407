"""How asks are made and compared, in a form that is equal where the meaning is. Pure.

For example, a client asks for ``+/#`` with normal events alone. The canonical ask is ``#`` of the
class normal: both filters match the same topics, and the shorter one is the canonical form.

An ask *covers* another one if it is for every event that the other one is for. A queue group is the
members on one filter, and a broker that chooses among them must know of it: so an ask with a group
covers only those of the same group and filter, and one without a group covers none with one.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from ges.matching.containment import covers as filter_covers
from ges.wire.asked import ALL_CLASSES, CLASS_BITS, EVERYTHING, MAX_GROUP_NAME, Ask
from ges.wire.realms import Realm
from ges.wire.topics import ONE, REST, check_filter
from overlay.errors import ConfigError
from overlay.ids import LinkClass

_MASK_63_BITS = 2**63 - 1
_encode = msgspec.msgpack.Encoder().encode


def ask_for(
    text: str,
    link_class: LinkClass | None = None,
    group: str | None = None,
    *,
    realm: int = Realm.ALL,
) -> Ask:
    """Return what a subscription asks for, in canonical form.

    Args:
        text: a topic filter.
        link_class: only events of that class; None: of all classes.
        group: name of a queue group.
        realm: only events that are published in the same unit of that level.

    Raises:
        TopicError: the filter is malformed.
        ConfigError: the name of the group is empty or too long.
    """
    check_filter(text)
    if group is not None and not 0 < len(group) <= MAX_GROUP_NAME:
        raise ConfigError(
            f"the name of a group has 1 to {MAX_GROUP_NAME} characters, not {len(group)}"
        )
    classes = ALL_CLASSES if link_class is None else CLASS_BITS[link_class]
    return Ask(canonical(text), classes, group, realm)


def served(ask: Ask, *, secure: bool) -> Ask:
    """Return what a broker serves of an ask, in canonical form; its filter has been checked.

    ``secure``: whether the hop to the client is. Secure events never travel on one that is not, so
    nobody need send any.

    Raises:
        ConfigError: it is for secure events alone, and the hop is not secure.
    """
    classes = ask.classes if secure else ask.classes & ~CLASS_BITS[LinkClass.SECURE]
    if not classes:
        raise ConfigError(
            "the hop from the broker to this client is not secure; attach over chordals://"
        )
    return Ask(canonical(ask.filter), classes, ask.group, ask.realm)


def everything(classes: int = ALL_CLASSES, realm: int = Realm.ALL) -> Ask:
    """Return the ask for all events of some classes."""
    return Ask(EVERYTHING, classes, None, realm)


def canonical(text: str) -> str:
    """Return the one filter of those that match the same topics; ``text`` is a checked filter."""
    # A topic has a level at least, and neither filter matches one of the system. No other two
    # filters match the same topics.
    return REST if text == f"{ONE}/{REST}" else text


def covers(wide: Ask, narrow: Ask) -> bool:
    """Say whether ``wide`` is for every event that ``narrow`` is for."""
    if narrow.classes & ~wide.classes or wide.group != narrow.group:
        return False
    if wide.group is not None:
        return wide.filter == narrow.filter and wide.realm == narrow.realm
    if wide.realm < narrow.realm:
        return False
    if wide.is_everything or narrow.is_everything:
        return wide.is_everything
    return filter_covers(wide.filter, narrow.filter)


def order(ask: Ask) -> tuple[str, int, str, int]:
    """Return what asks are sorted by."""
    return ask.filter, ask.classes, ask.group or "", ask.realm


def mark_of(ask: Ask) -> int:
    """Return a hash of an ask, with 63 bits."""
    found = blake2b(_encode(ask), digest_size=8).digest()
    return int.from_bytes(found, "big") & _MASK_63_BITS


def add_marks(total: int, mark: int) -> int:
    """Return the sum of two hashes; to take one out, add its negative."""
    return (total + mark) & _MASK_63_BITS


def digest_of(asks: Iterable[Ask]) -> int:
    """Return the digest of a set: the sum of the hashes of its members, modulo 2^63."""
    return sum(map(mark_of, asks)) & _MASK_63_BITS


def size_of(ask: Ask) -> int:
    """Return how many bytes of a message an ask takes at most."""
    return 16 + len(ask.filter.encode()) + len((ask.group or "").encode())
