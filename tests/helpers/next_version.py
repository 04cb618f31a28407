"""A broker of the next protocol version, made up: what an upgrade, broker by broker, meets.

It speaks this version and the next, has a capability that nobody here knows, sends a message of
that capability with every step, and appends a field to the heartbeats that all brokers send.
"""

from __future__ import annotations

from ges.broker import Broker
from ges.node import BrokerNode
from ges.wire.link_codec import LINK_MESSAGES
from overlay.ids import Nanos, WireCount
from overlay.machine import Effect, Input, LinkUp, Message, MessageReceived, Send
from overlay.wire.codec import MessageCodec
from overlay.wire.frames import PROTOCOL_VERSION
from overlay.wire.versions import CAPABILITIES, Dialect
from ring.wire.messages import Heartbeat

NEXT = PROTOCOL_VERSION + 1


class Mood(Message, frozen=True):
    """A message that only the next version has."""

    text: str
    capability = "mood"


class NextHeartbeat(Message, frozen=True, tag="Heartbeat"):
    """A heartbeat as the next version sends it."""

    version: WireCount
    pulse: int = 60


class NextNode(BrokerNode):
    """The machine of such a broker."""

    moods: tuple[str, ...] = ()  #: heard from others of its kind
    sent = 0  #: heartbeats with the new field

    def handle(self, event: Input, now: Nanos) -> list[Effect]:
        if isinstance(event, MessageReceived):
            if isinstance(event.message, Mood):
                self.moods = (*self.moods, event.message.text)
                return []
            if isinstance(event.message, NextHeartbeat):
                event = MessageReceived(event.uid, Heartbeat(event.message.version))
        effects = self._translated(super().handle(event, now))
        if isinstance(event, LinkUp):
            effects.append(Send(event.peer.uid, Mood("fine")))
        return effects

    def handle_timers(self, now: Nanos) -> list[Effect]:
        return self._translated(super().handle_timers(now))

    def _translated(self, effects: list[Effect]) -> list[Effect]:
        found: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Heartbeat):
                self.sent += 1
                effect = Send(effect.uid, NextHeartbeat(effect.message.version, 72), effect.about)
            found.append(effect)
        return found


class NextBroker(Broker):
    """The broker around it, over the real driver and real sockets."""

    machine_type = NextNode
    codec = MessageCodec(
        *(kind for kind in LINK_MESSAGES if kind is not Heartbeat), NextHeartbeat, Mood
    )
    dialect = Dialect(PROTOCOL_VERSION, NEXT, CAPABILITIES | {"mood"})


class NewestBroker(Broker):
    """One that has given this version up."""

    dialect = Dialect(NEXT, NEXT)
