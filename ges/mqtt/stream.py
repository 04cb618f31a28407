"""An MQTT client's connection, as the broker reads and writes that of any client of its.

The broker reads and writes our own frames here: the :class:`~ges.mqtt.gateway.Gateway` between
turns them into MQTT, and back. All else is that of other clients: the queue and its limits, the
pace at which a client is read, slots, lists and kicks.

While a client keeps to its keep-alive, the broker hears of it now and then, so that it holds no
client for silent that has promised less (MQTT 5, section 3.1.2.10). Whatever comes from a client is
a sign of life, be it a packet that makes no frame, or a part of one. Packets behind CONNECT are
taken as soon as the client is told that it is attached.
"""

from __future__ import annotations

import trio

from ges.errors import MqttError
from ges.mqtt.gateway import Gateway
from ges.mqtt.reasons import Reason
from ges.wire.client_messages import CLIENT_CODEC, KeepAlive
from overlay.net.connection import BROKEN
from overlay.wire.codec import FrameReader

READ_BYTES = 32 * 1024
PULSE_SECONDS = 4.0  #: at most, between two signs of life for the broker
PATIENCE = 1.5  #: times the keep-alive a client may be silent
LAST_SECONDS = 2.0  #: to write the last of what is to be said

_PULSE = CLIENT_CODEC.encode(KeepAlive(0, answer=True))


class MqttFrames(FrameReader):
    """Our frames as a broker reads them; what waits as MQTT counts as not whole yet."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__()
        self._gateway = gateway

    @property
    def kept_bytes(self) -> int:
        """Bytes that are not whole frames yet."""
        return super().kept_bytes + self._gateway.held_bytes


class Signs(trio.abc.Stream):
    """A client's own connection, under TLS if there is some: any byte from it is a sign of life."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.heard_at = trio.current_time()
        self._stream = stream

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return what comes next."""
        data = await self._stream.receive_some(max_bytes)
        self.heard_at = trio.current_time()
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the stream takes something."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


class MqttStream(trio.abc.Stream):
    """The stream of one client; the broker's end of it speaks our frames."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        gateway: Gateway,
        signs: Signs,
        *,
        keep_alive_s: float,
        packet_seconds: float,
        pulse_seconds: float = PULSE_SECONDS,
    ) -> None:
        """Take the client's own stream.

        Args:
            stream: speaks MQTT.
            gateway: between the two.
            signs: of life, as the bytes come in, before TLS makes sense of them.
            keep_alive_s: a client is given up that is silent for 1.5 times that; 0: never.
            packet_seconds: for a client to finish a packet it has begun.
            pulse_seconds: between two signs of life for the broker.
        """
        self.ended = trio.Event()  #: the broker has let go of it
        self._stream = stream
        self._gateway = gateway
        self._signs = signs
        self._patience = PATIENCE * keep_alive_s if keep_alive_s else float("inf")
        self._packet_seconds = packet_seconds
        self._pulse = min(PULSE_SECONDS, pulse_seconds)
        self._heard = self._begun = self._told = self._left_at = trio.current_time()
        self._is_over = False  #: nothing more is read
        self._is_torn = False  #: something was not sent to its end
        self._is_deaf = False  #: the client takes nothing more; what it has said still counts
        self._attached = trio.Event()  #: the client is told so, before all else
        self._receiving: trio.CancelScope | None = None
        self._room = trio.Event()
        self._lock = trio.Lock()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what the client has said, in our frames; empty when it has gone."""
        await self._attached.wait()
        await trio.lowlevel.checkpoint()
        self._forgive(trio.current_time() - self._left_at)
        try:
            return await self._next()
        finally:
            self._left_at = trio.current_time()

    async def _next(self) -> bytes:
        gateway = self._gateway
        while True:
            if gateway.to_broker:
                data = bytes(gateway.to_broker)
                gateway.to_broker.clear()
                self._told = trio.current_time()
                return data
            if gateway.is_paused and not gateway.is_over:
                await self._take(b"")
                continue
            if self._is_over:
                return b""
            if gateway.is_over:
                await self._end()
                continue
            if trio.current_time() >= self._told + self._pulse:
                self._told = trio.current_time()
                return _PULSE
            received = await self._receive()
            if received:
                await self._take(received)
            elif received is not None:
                await self._end()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Say to the client what the broker says in our frames.

        Waits while the client has as many messages under way as it takes.
        """
        gateway = self._gateway
        gateway.tell(data)
        await self._flush()
        self._attached.set()
        while gateway.is_full and not gateway.is_over:
            if self._room.is_set():
                self._room = trio.Event()
            await self._room.wait()
        if gateway.is_over:
            self._wake()

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the client's stream takes something."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the client's stream."""
        await self._stream.aclose()

    async def let_go(self) -> None:
        """The broker has ended the connection: say so, if the client still hears."""
        self._gateway.cut_off(Reason.ADMINISTRATIVE, "the broker has ended this connection")
        if not self._is_torn:
            with trio.move_on_after(LAST_SECONDS):
                await self._flush()

    def take_over(self) -> None:
        """Another connection of the same client has come: end this one."""
        self._gateway.cut_off(Reason.TAKEN_OVER, "the same client has connected anew")
        self._wake()

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _forgive(self, seconds: float) -> None:
        """The broker did not read for so long: what the client has sent meanwhile is still here."""
        self._heard = max(self._heard, self._signs.heard_at) + seconds
        self._begun += seconds

    @property
    def _silent_at(self) -> float:
        """When the client has been silent for too long, if nothing more comes until then."""
        return max(self._heard, self._signs.heard_at) + self._patience

    async def _receive(self) -> bytes | bytearray | None:
        """Return what comes; empty: the client has gone; None: nothing for a while, or it is over.

        A client that is silent for too long, or does not finish a packet, is cut off.
        """
        until = min(self._told + self._pulse, self._silent_at)
        try:
            with trio.move_on_at(until) as self._receiving:
                return await self._stream.receive_some(READ_BYTES)
        except BROKEN:
            return b""
        finally:
            self._receiving = None
        if trio.current_time() >= self._silent_at:
            self._gateway.cut_off(Reason.KEEP_ALIVE, "silent for longer than its keep-alive allows")
        self._look_at_packet()
        return None

    async def _take(self, data: bytes | bytearray) -> None:
        gateway = self._gateway
        try:
            count = gateway.receive(data)
        except MqttError as error:
            gateway.cut_off(error.reason, str(error))
            count = 0
        if count or not gateway.has_begun:
            self._begun = trio.current_time()
        self._look_at_packet()
        if not gateway.is_full:
            self._room.set()
        await self._flush()

    def _look_at_packet(self) -> None:
        gateway = self._gateway
        if gateway.has_begun and trio.current_time() - self._begun > self._packet_seconds:
            why = f"a packet not finished in {self._packet_seconds:g} s"
            gateway.cut_off(Reason.MALFORMED_PACKET, why)

    async def _end(self) -> None:
        """Read nothing more; what the client wants published now goes to the broker."""
        if not self._is_over:
            self._is_over = True
            self._gateway.is_over = True
            self._room.set()
            self._gateway.take_will()
            with trio.move_on_after(LAST_SECONDS):
                await self._flush()

    async def _flush(self) -> None:
        """Write what is to be said; where the client has closed, what it has sent is still read."""
        async with self._lock:
            data = bytes(self._gateway.to_client)
            self._gateway.to_client.clear()
            if data and not self._is_deaf:
                self._is_torn = True
                try:
                    await self._stream.send_all(data)
                except BROKEN:
                    self._is_deaf = True
                    return
                self._is_torn = False

    def _wake(self) -> None:
        self._room.set()
        if self._receiving is not None:
            self._receiving.cancel()
