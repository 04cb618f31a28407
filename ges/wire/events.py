"""Event frames: their header, and how a client packs them.

An event frame starts with a header of fixed layout, version 3, so that a broker reads what it
routes by and patches what changes on the way without decoding the rest. What changes is in front::

     0 u32 flags          :mod:`ges.wire.event_flags`
     4 u8  hops           brokers passed so far
     5 u8  shape          how many levels of destinations there are; 0: none, the event goes by arcs
                          of the ring (:mod:`ges.routing.arc_plan`)
     6 u16 0
     8 u32 via            digest of the way so far (:mod:`ges.order.via`)
    12 u32 source         ring id of the broker where it was published
    16 u32 target         shape 0: where the arc ends that the receiver is to serve; else 0
    20 u32 millis         from a client: for how many milliseconds a secure event may be parked; of
                          a recalled event for clients that have moved: its age in milliseconds, and
                          one; else 0
    24 u64 destinations   bit n: the broker with slot n is to get it from the receiver
    32 u64 trace          bit n: the broker with slot n has passed it on

and the rest is as the publisher wrote it::

    40 16s publisher      uid
    56 u64 incarnation    of the publisher; as in messages, up to 2**63 - 1
    64 u64 sequence       from 1, without gaps, for each publisher, incarnation and class; up to
                          2**63 - 2, as messages name the number behind the last one
    72 u64 published      unix time in nanoseconds, by the publisher's clock; any number, as no
                          broker tells it on
    80 u8  max hops       brokers that may pass it on; 0: as many as it takes
    81 u8  priority       0 to 9, for whoever gets it
    82 u8  realm          1 to 4: how far it goes (:mod:`ges.wire.realms`)
    83 u8  more           words of 8 bytes behind the extensions that this version does not know
    84 u16 topic bytes
    86 u16 attribute bytes
    88 extensions | more words | topic (UTF-8) | attributes (:mod:`ges.wire.attributes`) | payload

Extensions stand in the order of their bits. That of an express event is::

    u32 budget         microseconds it may be under way; 0: as the first broker has it
    u32 spent          microseconds under way so far, by estimates of those who passed it on

that of a retained event::

    u64 stamp          unix time in nanoseconds, as the broker has it where it was published; of
                       two retained events the one with the later stamp counts; from a client: 0;
                       up to 2**63 - 1, and so is the end

and that of an event that ends::

    u64 end            unix time in milliseconds, by the clock of that broker, after which nobody
                       is to get it; from a client: how many milliseconds that is from now on
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from ges.wire.attributes import MAX_ATTRIBUTE_BYTES
from ges.wire.event_flags import (
    AGAIN_FLAG,
    AT_MOST_ONCE_FLAG,
    CORRELATION_FLAG,
    EXPIRES_FLAG,
    EXPRESS_FLAG,
    EXTENDED_FLAGS,
    GROUPS_FLAG,
    KNOWN_FLAGS,
    LATE_FLAG,
    LEVELS_FLAG,
    MARK_FLAG,
    NAMED_FLAG,
    RECALLED_FLAG,
    REQUEST_FLAG,
    RETAIN_FLAG,
    ROUGH_FLAG,
    SECURE_FLAG,
    STORED_FLAG,
    TIMED_FLAGS,
    extension_at,
    extension_bytes,
)
from ges.wire.groups import MAX_GROUPS_BYTES
from ges.wire.levels import CLUSTER_MASK, UPPER_BYTES, pack_upper, read_upper
from ges.wire.matter import Matter
from ges.wire.names import MAX_NAMES_BYTES, check_names, pack_names
from ges.wire.realms import Realm, realm_named
from ges.wire.topics import MAX_TOPIC_BYTES
from overlay.errors import CodecError, ConfigError
from overlay.ids import MAX_COUNT, MAX_SEQUENCE, LinkClass

HEADER = struct.Struct("!IBBHIIIIQQ16sQQQBBBBHH")
FRONT = struct.Struct("!IBBHIIIIQQ")  #: what changes on the way ...
REST = struct.Struct("!16sQQQBBBBHH")  #: ... and what does not
FLAGS_AT = 3  #: the byte with the flags that a broker sets, in the body of a frame
SHAPE_AT = 5
MILLIS_AT = 20
SEQUENCE_AT = 64
PUBLISHED_AT = 72
START_BYTES = 70  #: of an event's frame, from its length to the incarnation

MAX_HOPS = 255
MAX_PRIORITY = 9
MAX_SHAPE = 4  #: levels of units, the broker's included
CORRELATION_BYTES = 16
MAX_PAYLOAD_BYTES = 1024 * 1024

BUDGET = struct.Struct("!II")  #: of an express event: budget and what is spent of it
BUDGET_AT = HEADER.size  #: in the body of its frame
SPENT_AT = BUDGET_AT + 4
WORD_BYTES = 8  #: of what this version does not know
DEFAULT_BUDGET_US = 50_000
MAX_BUDGET_US = 2**32 - 1

STAMP = struct.Struct("!Q")  #: of a retained event, and of the end of one that ends
MAX_TTL_MS = 1000 * (2**32 - 1)  #: seconds in 32 bits, as MQTT has them

#: Flags that may come together, but for those that may come with any.
_FLAGS = frozenset(
    [0, SECURE_FLAG]
    + [EXPRESS_FLAG | more for more in (0, ROUGH_FLAG, LATE_FLAG, ROUGH_FLAG | LATE_FLAG)]
)
_ANY = KNOWN_FLAGS & ~(SECURE_FLAG | EXPRESS_FLAG | ROUGH_FLAG | LATE_FLAG)

_SECURE, _EXPRESS = LinkClass.SECURE, LinkClass.EXPRESS
_CLASSES = {0: LinkClass.NORMAL, SECURE_FLAG: _SECURE, EXPRESS_FLAG: _EXPRESS}


#: Who numbers its events, in which incarnation, and of which class: each has its own numbers.
Flow = tuple[bytes, int, LinkClass]


class Duty(NamedTuple):
    """What the receiver of an event is to do for it: whom to serve."""

    shape: int = 0  #: levels of destinations; 0: an arc of the ring that ends at ``target``
    target: int = 0  #: ring id
    destinations: int = 0  #: brokers by slot, and units above these, as a mask
    trace: int = 0  #: brokers that have passed it on, and units passed
    address: int = 0  #: packed, and one, of the one broker that it is for; 0: all who want it
    entering: int = 0  #: level of the receiver's unit that it comes into; 0: none
    millis: int = 0  #: milliseconds, and of what the header says


NO_DUTY = Duty()


class Head(msgspec.Struct, frozen=True, gc=False):
    """The header of an event frame."""

    link_class: LinkClass  #: of links that it asks for
    flags: int
    hops: int
    via: int
    source: int  #: ring id
    duty: Duty
    publisher: bytes  #: 16 bytes
    incarnation: int
    sequence: int
    published_ns: int
    topic: bytes
    max_hops: int = 0
    priority: int = 0
    attribute_bytes: int = 0
    budget_us: int = 0
    spent_us: int = 0
    stamp: int = 0
    ends_ms: int = 0  #: unix time; 0: never; from a client: milliseconds from now on
    realm: int = Realm.ALL  #: how far it goes
    words: int = 0  #: of 8 bytes before its topic that this version does not know

    @property
    def matter(self) -> Matter:
        """What decides who wants it, at the broker where it is published."""
        return Matter(self.link_class, self.topic, self.realm)

    @property
    def secure(self) -> bool:
        """It asks for secure links."""
        return self.link_class.is_secret

    @property
    def express(self) -> bool:
        """It asks for express links, and has a budget."""
        return self.link_class.is_timed

    @property
    def marked(self) -> bool:
        """Events before it may come another way."""
        return bool(self.flags & MARK_FLAG)

    @property
    def rough(self) -> bool:
        """An express event that has passed a link that is not."""
        return bool(self.flags & ROUGH_FLAG)

    @property
    def late(self) -> bool:
        """An express event that a broker has found late."""
        return bool(self.flags & LATE_FLAG)

    @property
    def again(self) -> bool:
        """It may come for a second time, and is passed on all the same."""
        return bool(self.flags & AGAIN_FLAG)

    @property
    def recalled(self) -> bool:
        """It answers a question of the broker that it is for."""
        return bool(self.flags & RECALLED_FLAG)

    @property
    def is_request(self) -> bool:
        """Somebody waits for a reply to it."""
        return bool(self.flags & REQUEST_FLAG)

    @property
    def retain(self) -> bool:
        """It is to be retained: who subscribes later gets it first."""
        return bool(self.flags & RETAIN_FLAG)

    @property
    def stored(self) -> bool:
        """It is a retained value: its news has gone to all before."""
        return bool(self.flags & STORED_FLAG)

    @property
    def is_named(self) -> bool:
        """It is for the clients of some names alone."""
        return bool(self.flags & NAMED_FLAG)

    @property
    def topic_at(self) -> int:
        """Where its topic begins, from the start of its header."""
        return HEADER.size + extension_bytes(self.flags) + WORD_BYTES * self.words

    @property
    def flow(self) -> Flow:
        """The sequence that it is part of: its publisher, incarnation and class."""
        return self.publisher, self.incarnation, self.link_class

    @property
    def park_ms(self) -> int:
        """Milliseconds for which a client lets a secure event be parked."""
        return self.duty.millis


def pack_front(flags: int, hops: int, via: int, source: int, duty: Duty) -> bytes:
    """Return what stands in front of an event on its next hop."""
    shape, target, destinations, trace, _, _, millis = duty
    destinations, trace = destinations & CLUSTER_MASK, trace & CLUSTER_MASK
    return FRONT.pack(flags, hops, shape, 0, via, source, target, millis, destinations, trace)


def pack_end(duty: Duty) -> bytes:
    """Return what stands behind an event that is for units above the cluster; else nothing."""
    shape, _, destinations, trace, address, entering, _ = duty
    return pack_upper(destinations, trace, address, entering) if shape > 1 else b""


def redirected(body: bytes, flags: int, hops: int, via: int, source: int, duty: Duty) -> bytes:
    """Return an event with another front, and with what its duty needs behind it."""
    had = flags_of(body) & LEVELS_FLAG
    flags = flags | LEVELS_FLAG if duty.shape > 1 else flags & ~LEVELS_FLAG
    rest = body[FRONT.size : len(body) - UPPER_BYTES] if had else body[FRONT.size :]
    return b"".join((pack_front(flags, hops, via, source, duty), rest, pack_end(duty)))


@lru_cache(maxsize=1024)
def layout_alike(end_bytes: int, payload_bytes: int) -> struct.Struct:
    """Return the layout of the frames of one flow, topic and size, for many to be handled at once.

    It is start | sequence | time | max hops to topic | payload; starts and ends are the same.
    """
    return struct.Struct(f"!{START_BYTES}sQQ{end_bytes}s{payload_bytes}s")


class Options(NamedTuple):
    """What a publisher may add to an event; all of it is checked."""

    max_hops: int = 0  #: between brokers, that it may take; 0: as many as it needs
    priority: int = 0
    correlation: bytes = b""  #: 16 bytes by which a reply names what it replies to
    is_request: bool = False  #: it has a correlation id that says where the reply goes
    retain: bool = False
    ttl_ms: int = 0  #: milliseconds after which nobody is to get it; 0: there is no such time
    realm: Realm = Realm.ALL
    to: tuple[str, ...] = ()  #: names of the clients that it is for; none: all who want it


def checked_options(
    max_hops: int | None,
    priority: int,
    correlation: bytes,
    *,
    retain: bool = False,
    ttl: float | None = None,
    realm: str = "all",
    to: str | Iterable[str] = (),
) -> Options | None:
    """Return what a publisher adds to an event, or None if that is nothing.

    Raises:
        ConfigError: ``max_hops`` is not 1 to 255, ``priority`` not 0 to 9, ``correlation`` not 16
            bytes, ``ttl`` no time in seconds, or ``realm`` none; or ``to`` has no names, or comes
            with ``realm`` or ``retain``.
    """
    if max_hops is not None and not (type(max_hops) is int and 1 <= max_hops <= MAX_HOPS):
        raise ConfigError(f"max_hops is 1 to {MAX_HOPS} hops between brokers, not {max_hops!r}")
    if not (type(priority) is int and 0 <= priority <= MAX_PRIORITY):
        raise ConfigError(f"priority is 0 to {MAX_PRIORITY}, not {priority!r}")
    if not isinstance(correlation, bytes):
        raise ConfigError(f"correlation is {type(correlation).__name__}, not bytes")
    if correlation and len(correlation) != CORRELATION_BYTES:
        raise ConfigError(f"correlation is {CORRELATION_BYTES} bytes, not {len(correlation)}")
    ttl_ms = 0
    if ttl is not None:
        is_number = isinstance(ttl, int | float) and not isinstance(ttl, bool)
        if not is_number or not 0.001 <= ttl <= MAX_TTL_MS // 1000:
            raise ConfigError(f"ttl is a time in seconds, from 0.001 to 2**32 - 1; not {ttl!r}")
        ttl_ms = round(ttl * 1000)
    chosen = realm_named(realm)
    names = check_names(to) if to else ()
    if names and (retain or chosen < Realm.ALL):
        raise ConfigError(
            "an event to named clients goes to these wherever they are: it is not retained, and "
            "has no realm"
        )
    found = Options(
        max_hops or 0, priority, correlation, False, bool(retain), ttl_ms, chosen, names
    )
    return found if found != Options() else None


def pack_event(
    secure: bool,
    publisher: bytes,
    incarnation: int,
    sequence: int,
    published_ns: int,
    topic: bytes,
    attributes: bytes,
    payload: bytes,
    park_ms: int = 0,
    *,
    max_hops: int = 0,
    priority: int = 0,
    correlation: bytes = b"",
    is_request: bool = False,
    retain: bool = False,
    ttl_ms: int = 0,
    at_most_once: bool = False,
    realm: int = Realm.ALL,
    to: tuple[str, ...] = (),
) -> bytes:
    """Return the body of an event frame as a client sends it; all parts have been checked."""
    flags = (SECURE_FLAG if secure else 0) | _more_flags(correlation, is_request)
    if at_most_once:
        flags |= AT_MOST_ONCE_FLAG
    times = b""
    if retain:
        flags |= RETAIN_FLAG
        times += STAMP.pack(0)
    if ttl_ms:
        flags |= EXPIRES_FLAG
        times += STAMP.pack(ttl_ms)
    who = (publisher, incarnation, sequence, published_ns)
    sizes = (len(topic), len(attributes))
    if to:
        flags |= NAMED_FLAG
    front = pack_front(flags, 0, 0, 0, Duty(millis=park_ms))
    head = front + REST.pack(*who, max_hops, priority, realm, 0, *sizes)
    return b"".join((head, correlation, times, topic, attributes, pack_names(to), payload))


def pack_express(
    publisher: bytes,
    incarnation: int,
    sequence: int,
    published_ns: int,
    topic: bytes,
    attributes: bytes,
    payload: bytes,
    budget_us: int,
    *,
    max_hops: int = 0,
    priority: int = 0,
    correlation: bytes = b"",
    is_request: bool = False,
    realm: int = Realm.ALL,
) -> bytes:
    """Return the body of the frame of an express event; all parts have been checked."""
    flags = EXPRESS_FLAG | _more_flags(correlation, is_request)
    who = (publisher, incarnation, sequence, published_ns)
    sizes = (len(topic), len(attributes))
    head = pack_front(flags, 0, 0, 0, NO_DUTY)
    head += REST.pack(*who, max_hops, priority, realm, 0, *sizes)
    return b"".join((head, BUDGET.pack(budget_us, 0), correlation, topic, attributes, payload))


def _more_flags(correlation: bytes, is_request: bool) -> int:
    return (CORRELATION_FLAG if correlation else 0) | (REQUEST_FLAG if is_request else 0)


def flags_of(body: bytes | bytearray) -> int:
    """Return the flags in the body of an event frame."""
    return int.from_bytes(body[: FLAGS_AT + 1])


def read_head(data: bytes, start: int = 0, end: int | None = None) -> Head:
    """Read the header of an event frame, checking what a broker relies on.

    The body of the frame is ``data`` between ``start`` and ``end``. :mod:`ges.wire.event_runs`
    reads events from connections, and checks as well what is behind the header.

    Raises:
        CodecError: the frame is too short for what it announces, or a part is too long.
    """
    if end is None:
        end = len(data)
    try:
        (
            flags,
            hops,
            shape,
            nothing,
            via,
            source,
            target,
            millis,
            destinations,
            trace,
            publisher,
            incarnation,
            sequence,
            published,
            max_hops,
            priority,
            realm,
            words,
            topics,
            attributes,
        ) = HEADER.unpack_from(data, start)
        topic_at = start + HEADER.size + WORD_BYTES * words
        budget = spent = stamp = ends = 0
        if flags & EXTENDED_FLAGS:
            if flags & EXPRESS_FLAG:
                budget, spent = BUDGET.unpack_from(data, start + BUDGET_AT)
            topic_at += extension_bytes(flags)
            if flags & TIMED_FLAGS:
                stamp, ends = _times(flags, data, start + HEADER.size)
        upper_destinations = upper_trace = address = entering = 0
        if flags & LEVELS_FLAG:
            end -= UPPER_BYTES
            upper_destinations, upper_trace, address, entering = read_upper(data, end)
    except struct.error:
        raise CodecError(f"event frame of {end - start} bytes") from None
    payload = end - topic_at - topics - attributes
    if (
        payload < 0
        or nothing
        or not 0 < topics <= MAX_TOPIC_BYTES
        or attributes > MAX_ATTRIBUTE_BYTES
        or payload > _most_payload(flags)
        or (flags & REQUEST_FLAG and not flags & CORRELATION_FLAG)
        or flags & ~_ANY not in _FLAGS
        or (flags & EXPRESS_FLAG and flags & TIMED_FLAGS)
        or not 0 < sequence <= MAX_SEQUENCE
        or incarnation > MAX_COUNT
        or stamp > MAX_COUNT
        or ends > MAX_COUNT
        or shape > MAX_SHAPE
        or (shape > 1) != bool(flags & LEVELS_FLAG)
        or priority > MAX_PRIORITY
        or not Realm.CLUSTER <= realm <= Realm.ALL
    ):
        raise CodecError("event frame whose lengths or numbers make no sense")
    return Head(
        _CLASSES[flags & (SECURE_FLAG | EXPRESS_FLAG)],
        flags,
        hops,
        via,
        source,
        Duty(
            shape,
            target,
            destinations | upper_destinations,
            trace | upper_trace,
            address,
            entering,
            millis,
        ),
        publisher,
        incarnation,
        sequence,
        published,
        data[topic_at : topic_at + topics],
        max_hops,
        priority,
        attributes,
        budget,
        spent,
        stamp,
        ends,
        realm,
        words,
    )


def _most_payload(flags: int) -> int:
    """Return how many bytes may stand behind the attributes."""
    groups = MAX_GROUPS_BYTES if flags & GROUPS_FLAG else 0
    return MAX_PAYLOAD_BYTES + groups + (MAX_NAMES_BYTES if flags & NAMED_FLAG else 0)


def _times(flags: int, data: bytes, at: int) -> tuple[int, int]:
    """Return the stamp and the end of an event, 0 for what it has not; its header ends at ``at``.

    Raises:
        struct.error: they are not there.
    """
    stamp = ends = 0
    if flags & EXPIRES_FLAG:
        (ends,) = STAMP.unpack_from(data, at + extension_at(EXPIRES_FLAG, flags))
    if flags & RETAIN_FLAG:
        (stamp,) = STAMP.unpack_from(data, at + extension_at(RETAIN_FLAG, flags))
    return stamp, ends
