"""Messages that go through other brokers, as the link between two has failed
(paper 004, section 3.4.2).

The sender names the whole path, so those on it keep no state: each checks that the message comes
from the broker before it on the path, and passes it to the one behind it if it is linked to that
one. Brokers on the way do not decode it. No path holds a broker twice or more than
:data:`~ring.wire.messages.MAX_PATH` brokers, so nothing goes in circles.
"""

from __future__ import annotations

from overlay.errors import CodecError
from overlay.ids import Peer
from overlay.machine import Message
from overlay.wire.codec import MessageCodec
from overlay.wire.frames import HEADER
from ring.wire.messages import (
    MAX_RELAYED_BYTES,
    DetourBroken,
    DetourClosed,
    DetourOpen,
    DetourOpened,
    Relay,
)
from ring.wire.registry import RING_MESSAGES

#: All that can stand in a relay; not a relay itself.
_CODEC = MessageCodec(
    *(kind for kind in RING_MESSAGES if kind is not Relay),
    DetourOpen,
    DetourOpened,
    DetourClosed,
    DetourBroken,
)


def wrap(sender: Peer, path: tuple[str, ...], message: Message) -> Relay | None:
    """Return ``message`` as it starts on its way along ``path``; None if it is too long for it."""
    body = _CODEC.encode(message)[HEADER.size :]
    return Relay(path, 1, sender, body) if len(body) <= MAX_RELAYED_BYTES else None


def unwrap(relay: Relay) -> Message | None:
    """Return the message in a relay; None if it makes no sense."""
    try:
        return _CODEC.decode(relay.body)
    except CodecError:
        return None


def is_sound(relay: Relay, here: str, came_from: str) -> bool:
    """Say whether a relay may have come to ``here`` from ``came_from`` as it says."""
    path, at = relay.path, relay.at
    return (
        at < len(path)
        and path[at] == here
        and path[at - 1] == came_from
        and path[0] == relay.sender.uid
        and len(set(path)) == len(path)
    )


def onward(relay: Relay) -> tuple[str, Relay]:
    """Return the next broker on the path, and what it is to be sent."""
    at = relay.at + 1
    return relay.path[at], Relay(relay.path, at, relay.sender, relay.body)
