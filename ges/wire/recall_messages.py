"""What an edge asks a source, where it does not know what came before an event.

These are control messages for one member (:mod:`ges.telling.post`). The events of an answer travel
as events, to the broker alone that asked.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ges.wire.profile_messages import Asks
from ges.wire.topics import MAX_TOPIC_BYTES
from ges.wire.unit_messages import Slot
from overlay.ids import MAX_COUNT, LinkClass, WireCount, WireSequence
from overlay.machine import Message
from ring.wire.messages import RingId

MAX_RANGES = 64  #: asked for in one message
MAX_LISTED = 512  #: events that are named in one answer, or chosen of those named
MAX_SENT = 1024  #: events in one answer
MAX_TAILS = 512  #: flows in one message


class WantedRange(msgspec.Struct, frozen=True, array_like=True):
    """Events of one flow: ``first`` to ``last``, or of these only the ``chosen``."""

    number: WireCount  #: by which the edge knows its question again
    publisher: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    incarnation: WireCount
    link_class: LinkClass
    first: WireSequence
    last: WireSequence
    chosen: Annotated[tuple[WireSequence, ...], msgspec.Meta(max_length=MAX_LISTED)] = ()


class RangeQuery(Message, frozen=True):
    """What did you send to me of these?

    ``asker`` is the slot of a member of the same cluster. One of another cluster says its whole
    address, packed, and its place. One that waits for a slot, or was off the ring, says its place
    alone, and ``asker`` is 0: nobody knows what it was named by, so it is told what there was.
    """

    asker: Slot
    ranges: Annotated[tuple[WantedRange, ...], msgspec.Meta(max_length=MAX_RANGES)]
    address: Annotated[int, msgspec.Meta(ge=0, lt=2**24)] | None = None
    place: RingId | None = None


class ListedEvent(msgspec.Struct, frozen=True, array_like=True):
    """An event that was meant for the asker, and is sent if it is asked for once more."""

    sequence: WireSequence
    topic: Annotated[bytes, msgspec.Meta(max_length=MAX_TOPIC_BYTES)]


class RangeDone(Message, frozen=True):
    """The end of an answer; the events ``sent`` with it come before it, unless they are late.

    It settles all numbers asked for from ``floor`` to ``last`` but for those sent or listed. Below
    ``floor`` this broker knows nothing; ``before`` may, as the publisher was there earlier.
    """

    number: WireCount
    floor: Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)]
    last: WireCount
    before: RingId | None = None
    sent: Annotated[tuple[WireSequence, ...], msgspec.Meta(max_length=MAX_SENT)] = ()
    listed: Annotated[tuple[ListedEvent, ...], msgspec.Meta(max_length=MAX_LISTED)] = ()


class FlowTail(msgspec.Struct, frozen=True, array_like=True):
    """The first and the last event of a flow that were for somebody of late."""

    publisher: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    incarnation: WireCount
    link_class: LinkClass
    first: WireSequence
    last: WireSequence


class Tails(Message, frozen=True):
    """A broker has died that events for you may have been at: these you should have had.

    ``source``: the place of the sender, which is to be asked for what is missing.
    """

    source: RingId
    flows: Annotated[tuple[FlowTail, ...], msgspec.Meta(max_length=MAX_TAILS)]


class PastWanted(Message, frozen=True):
    """Clients have moved to the sender: send it what was published here of late that they want.

    ``age_ms``: nothing older than that. ``asker`` is the slot of a member of the same cluster.
    Where all of the overlay are told this, it says its whole address, packed, and its place; its
    place alone, and 0 for the slot, where it waits for one.
    """

    asker: Slot
    number: WireCount
    age_ms: WireCount
    asks: Asks
    address: Annotated[int, msgspec.Meta(ge=0, lt=2**24)] | None = None
    place: RingId | None = None


class PastDone(Message, frozen=True):
    """So many events were sent in answer; they come by themselves.

    ``place``: of the sender, which may be of another cluster.
    """

    number: WireCount
    sent: WireCount
    place: RingId | None = None


RECALL_MESSAGES: tuple[type[Message], ...] = (RangeQuery, RangeDone, Tails, PastWanted, PastDone)
