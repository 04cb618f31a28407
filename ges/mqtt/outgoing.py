"""Messages to one MQTT client: in order, and of QoS 1 no more under way than it takes. Pure.

For example, a client takes ten messages at once. The eleventh waits, and all behind it, until the
client has acknowledged one of the ten. A message that ends while it waits is dropped. Nothing is
sent again while the connection lasts, as TCP loses nothing, and a connection is all of a session
here (MQTT 5, section 4.4).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from ges.mqtt import writing
from ges.mqtt.mapping import with_rest
from ges.mqtt.packets import MQTT_5, Publish

MOST_UNDER_WAY = 1024
MAX_PACKET_ID = 65_535


class Outgoing:
    """What is under way to one client, and what waits."""

    def __init__(self, level: int, most: int, limit_bytes: int | None) -> None:
        """``most`` may be under way; ``limit_bytes`` is what the client takes in one packet."""
        self.too_large = 0  #: messages that were dropped, as the client takes none so large
        self._level = level
        self._most = min(most, MOST_UNDER_WAY)
        self._limit_bytes = limit_bytes
        self._under_way: set[int] = set()
        self._waiting: deque[tuple[Publish, int]] = deque()  #: with the unix time when each ends
        self._last_id = 0

    @property
    def is_full(self) -> bool:
        """Messages wait for the client to acknowledge others."""
        return bool(self._waiting)

    def send(self, message: Publish, ends_ms: int, now_ms: int) -> bytes:
        """Return what is to be sent now that there is one more message.

        ``ends_ms``: unix time in milliseconds from which on nobody gets it; 0: there is none.
        """
        if self._waiting or self._is_held(message):
            self._waiting.append((message, ends_ms))
            return b""
        return self._packed(message, ends_ms, now_ms)

    def acknowledged(self, packet_id: int, now_ms: int) -> bytes:
        """Return what is to be sent now that the client has one; an unknown one says nothing."""
        self._under_way.discard(packet_id)
        packets: list[bytes] = []
        while self._waiting and not self._is_held(self._waiting[0][0]):
            packets.append(self._packed(*self._waiting.popleft(), now_ms))
        return b"".join(packets)

    def _is_held(self, message: Publish) -> bool:
        return bool(message.qos) and len(self._under_way) >= self._most

    def _packed(self, message: Publish, ends_ms: int, now_ms: int) -> bytes:
        if ends_ms:
            if ends_ms <= now_ms:
                return b""
            if self._level == MQTT_5:
                message = with_rest(message, ends_ms, now_ms)
        if message.qos:
            message = replace(message, packet_id=self._next_id())
        packed = writing.publish(message, self._level)
        if self._limit_bytes is not None and len(packed) > self._limit_bytes:
            self.too_large += 1  # as if it had been sent and acknowledged: MQTT 5, 3.1.2.11.4
            return b""
        if message.qos:
            self._under_way.add(message.packet_id)
        return packed

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % MAX_PACKET_ID + 1
            if self._last_id not in self._under_way:
                return self._last_id
