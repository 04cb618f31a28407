"""All that brokers say to each other over their links, but events."""

from __future__ import annotations

from ges.messages import MeasuredLinks, RevocationNotice, SecureState, SecureStatesWanted
from overlay.codec import MessageCodec
from overlay.gauges import LinkEcho, LinkProbe
from overlay.handshake import Goodbye
from overlay.machine import Message
from overlay.resend import STREAM_MESSAGES
from overlay.soundings import QuickEcho, QuickProbe
from ring.wire import RING_MESSAGES

LINK_MESSAGES: tuple[type[Message], ...] = (
    *RING_MESSAGES,
    *STREAM_MESSAGES,
    SecureState,
    SecureStatesWanted,
    RevocationNotice,
    MeasuredLinks,
    LinkProbe,
    LinkEcho,
    QuickProbe,
    QuickEcho,
    Goodbye,
)
LINK_CODEC = MessageCodec(*LINK_MESSAGES)
