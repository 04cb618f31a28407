"""What an edge asks a source, where it does not know what came before an event.

These travel like events, to one broker alone.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ges.wire.topics import MAX_TOPIC_BYTES
from ges.wire.unit_messages import Slot
from overlay.ids import LinkClass, WireCount
from overlay.machine import Message

MAX_RANGES = 64  #: asked for in one message
MAX_LISTED = 512  #: events that are named in one answer, or chosen of those named
MAX_SENT = 1024  #: events in one answer

WireSequence = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


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
    """What did you send to me of these? ``asker`` is a member of the same cluster."""

    asker: Slot
    ranges: Annotated[tuple[WantedRange, ...], msgspec.Meta(max_length=MAX_RANGES)]


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
    floor: WireSequence
    last: WireCount
    before: Slot | None = None
    sent: Annotated[tuple[WireSequence, ...], msgspec.Meta(max_length=MAX_SENT)] = ()
    listed: Annotated[tuple[ListedEvent, ...], msgspec.Meta(max_length=MAX_LISTED)] = ()
