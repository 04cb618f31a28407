"""All that brokers say to each other over their links, but events."""

from __future__ import annotations

from ges.wire.broker_messages import (
    LinkDeclared,
    RevocationNotice,
)
from ges.wire.directory_messages import DIRECTORY_MESSAGES
from ges.wire.profile_messages import PROFILE_MESSAGES
from ges.wire.recall_messages import RECALL_MESSAGES
from ges.wire.relocation_messages import RELOCATION_MESSAGES
from ges.wire.telling_messages import TELLING_MESSAGES
from ges.wire.unit_messages import UNIT_MESSAGES
from overlay.machine import Message
from overlay.multigraph.probes import LinkEcho, LinkProbe
from overlay.multigraph.quick_probes import QuickEcho, QuickProbe
from overlay.queues.resend import STREAM_MESSAGES
from overlay.wire.codec import MessageCodec
from overlay.wire.greetings import Goodbye
from ring.wire.registry import RING_MESSAGES

LINK_MESSAGES: tuple[type[Message], ...] = (
    *RING_MESSAGES,
    *STREAM_MESSAGES,
    RevocationNotice,
    LinkDeclared,
    LinkProbe,
    LinkEcho,
    QuickProbe,
    QuickEcho,
    *TELLING_MESSAGES,
    *UNIT_MESSAGES,
    *PROFILE_MESSAGES,
    *RECALL_MESSAGES,
    *DIRECTORY_MESSAGES,
    *RELOCATION_MESSAGES,
    Goodbye,
)
LINK_CODEC = MessageCodec(*LINK_MESSAGES)
