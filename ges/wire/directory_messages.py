"""What brokers say to each other of named clients: where they are attached.

For example, broker A has a client of the name ``kitchen``. It tells that to the *registrar* of the
name: the broker that stands nearest before the place to which the name is hashed. A broker that has
an event for ``kitchen`` asks there.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ges.wire.names import MAX_NAME
from overlay.ids import LinkClass, WireCount, WireUid
from overlay.machine import Message
from ring.wire.messages import RingId

MAX_HOLDERS = 64  #: brokers with clients of one name; of others nobody is told
MAX_LASTS_S = 600

PublisherBytes = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
ClientName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
PackedAddress = Annotated[int, msgspec.Meta(ge=0, lt=2**24)]


class Holder(msgspec.Struct, frozen=True, array_like=True):
    """A broker with clients of a name."""

    uid: WireUid
    place: RingId
    address: PackedAddress | None  #: None: it has none at the moment


class NameAt(Message, frozen=True):
    """A broker has clients of a name; or has none any more, if it lasts for 0 s.

    ``is_copy``: from the registrar, for its neighbours on the ring.
    """

    name: ClientName
    holder: Holder
    lasts_s: Annotated[int, msgspec.Meta(ge=0, le=MAX_LASTS_S)]
    is_copy: bool = False


class NameKept(Message, frozen=True):
    """The registrar knows that you have clients of this name."""

    name: ClientName


class NameWanted(Message, frozen=True):
    """Where are clients of this name? ``is_second``: the registrar does not know, and asks on."""

    name: ClientName
    asker: WireUid
    place: RingId  #: of the asker
    is_second: bool = False


class NameFound(Message, frozen=True):
    """Here they are; nowhere, if there is no holder."""

    name: ClientName
    holders: Annotated[tuple[Holder, ...], msgspec.Meta(max_length=MAX_HOLDERS)]


class NameWrong(Message, frozen=True):
    """An event came here for clients of these names, and there are none here any more."""

    names: Annotated[tuple[ClientName, ...], msgspec.Meta(max_length=64)]
    publisher: PublisherBytes
    incarnation: WireCount
    link_class: LinkClass
    sequence: WireCount


DIRECTORY_MESSAGES: tuple[type[Message], ...] = (
    NameAt,
    NameKept,
    NameWanted,
    NameFound,
    NameWrong,
)
