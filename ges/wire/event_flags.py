"""The flags of an event, as one table: who may set each, whether it stays, what stands for it.

For example, bit 12 says that an event is to be retained. A client may set it, it stays on the event
wherever that goes, a stamp of 8 bytes stands behind the header for it, and such an event is handled
by itself. All lists of flags, and the place of an event's topic, follow from the table. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class EventFlag(NamedTuple):
    """One flag."""

    bit: int
    #: A client may set it.
    from_client: bool = False
    #: It is about the way of the event, and decided anew there. All others stay.
    of_way: bool = False
    extension: int = 0  #: bytes that stand behind the header for it, in the order of the bits
    is_behind: bool = False  #: bytes stand for it before the payload, or behind
    #: Hardly any event has it: one that does is handled by itself, and not as part of a run.
    is_alone: bool = False


SECURE_FLAG = 1 << 0  #: asks for secure links
MARK_FLAG = 1 << 2  #: events before this one may come another way
EXPRESS_FLAG = 1 << 3  #: asks for express links; extension: budget and what is spent of it
ROUGH_FLAG = 1 << 4  #: an express event has passed a link that is not express
LATE_FLAG = 1 << 5  #: a broker has found an express event late
AGAIN_FLAG = 1 << 6  #: it may come for a second time
RECALLED_FLAG = 1 << 7  #: it answers a question of the broker that it is for
CORRELATION_FLAG = 1 << 8  #: extension: 16 bytes by which a reply names what it replies to
REQUEST_FLAG = 1 << 9  #: its correlation id says where the reply goes
GROUPS_FLAG = 1 << 10  #: behind its payload stands which broker serves which queue group
LEVELS_FLAG = 1 << 11  #: behind all that stand destinations above the cluster
RETAIN_FLAG = 1 << 12  #: it is to be retained; extension: its stamp
EXPIRES_FLAG = 1 << 13  #: it ends; extension: when
STORED_FLAG = 1 << 14  #: it is a retained value, and not news
AT_MOST_ONCE_FLAG = 1 << 15  #: its publisher does not care if it is lost (QoS 0 of MQTT)
NAMED_FLAG = 1 << 16  #: names of the clients that it is for stand before its payload

FLAGS = (
    EventFlag(SECURE_FLAG, from_client=True),
    EventFlag(MARK_FLAG),
    EventFlag(EXPRESS_FLAG, from_client=True, extension=8, is_alone=True),
    EventFlag(ROUGH_FLAG, of_way=True),
    EventFlag(LATE_FLAG, of_way=True),
    EventFlag(AGAIN_FLAG, from_client=True, of_way=True),
    EventFlag(RECALLED_FLAG, of_way=True),
    EventFlag(CORRELATION_FLAG, from_client=True, extension=16, is_alone=True),
    EventFlag(REQUEST_FLAG, from_client=True),
    EventFlag(GROUPS_FLAG, is_behind=True, is_alone=True),
    EventFlag(LEVELS_FLAG, of_way=True, is_behind=True, is_alone=True),
    EventFlag(RETAIN_FLAG, from_client=True, extension=8, is_alone=True),
    EventFlag(EXPIRES_FLAG, from_client=True, extension=8, is_alone=True),
    EventFlag(STORED_FLAG, is_alone=True),
    EventFlag(AT_MOST_ONCE_FLAG, from_client=True),
    EventFlag(NAMED_FLAG, from_client=True, is_behind=True, is_alone=True),
    # What later versions may say. Its size is fixed now, so a broker of this version finds the
    # topic behind it, and carries it on. Bits 1, 17 and 24 to 31 are free, and refused.
    *(
        EventFlag(1 << bit, from_client=True, extension=size, is_alone=True)
        for bit, size in ((18, 40), (19, 8), (20, 16), (21, 8), (22, 16), (23, 32))
    ),
)

KNOWN_FLAGS = sum(each.bit for each in FLAGS)
CLIENT_FLAGS = sum(each.bit for each in FLAGS if each.from_client)
WAY_FLAGS = sum(each.bit for each in FLAGS if each.of_way)
ALONE_FLAGS = sum(each.bit for each in FLAGS if each.is_alone)
EXTENDED_FLAGS = sum(each.bit for each in FLAGS if each.extension)
#: Those for which an event has bytes of its own: without the flag these would be of its payload.
LAYOUT_FLAGS = EXTENDED_FLAGS | sum(each.bit for each in FLAGS if each.is_behind)
#: Those that make an event matter at some times alone.
TIMED_FLAGS = RETAIN_FLAG | EXPIRES_FLAG


@lru_cache(maxsize=1024)
def extension_bytes(flags: int) -> int:
    """Return how many bytes of extensions stand behind the header of an event with these flags."""
    return sum(each.extension for each in FLAGS if each.bit & flags)


def extension_at(flag: int, flags: int) -> int:
    """Return where the extension of one flag begins, counted from the end of the header."""
    return extension_bytes(flags & (flag - 1))
