"""What a broker still knows of one event that was published: asked and told.

An event is named by its publisher, its number, and its class. A publisher that has started anew
counts from 1 again, so there may be several of one name: one for each *incarnation*.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from ges.wire.trace_context import WireTraceparent
from ges.wire.unit_messages import Slot
from overlay.ids import LinkClass, WireCount, WireSequence, WireText, WireUid, WireUrl
from overlay.machine import Message

MAX_LIVES_TOLD = 4  #: incarnations of a publisher, the latest


class EdgeState(StrEnum):
    """What became of an event at a broker that it may have been for."""

    DONE = "done"  #: it is delivered to the clients that want it, or was not for this broker
    HELD = "held"  #: it has come, and waits for earlier ones that may be missing
    ASKED = "asked"  #: later ones have come, and the source is asked for it
    NEVER = "never"  #: neither it nor a later one has come


class WhyEventRequest(Message, frozen=True):
    """What do you know of this event?"""

    publisher: WireUid
    sequence: WireSequence
    link_class: LinkClass


class LoggedEvent(msgspec.Struct, frozen=True, array_like=True):
    """It was published here, and is still in the log."""

    incarnation: WireCount
    age_ms: WireCount
    topic: str | None  #: None: it is not shown to whoever asks
    to_all: bool  #: it went to every broker
    slots: tuple[Slot, ...]  #: of the brokers that it was for
    traceparent: WireTraceparent = ""  #: the trace that it belongs to; shown where the topic is


class PassedEvent(msgspec.Struct, frozen=True, array_like=True):
    """How far this broker is with the events of a publisher."""

    incarnation: WireCount
    state: EdgeState


class WhyEvent(Message, frozen=True):
    """The answer."""

    broker: WireUid
    url: WireUrl
    slot: Slot | None
    logged: Annotated[tuple[LoggedEvent, ...], msgspec.Meta(max_length=MAX_LIVES_TOLD)] = ()
    passed: Annotated[tuple[PassedEvent, ...], msgspec.Meta(max_length=MAX_LIVES_TOLD)] = ()
    withheld: WireText | None = None  #: why topics and destinations are not shown
