"""The MQTT door of a broker: listens, hears who comes, and serves clients as the broker's own.

For example, a client connects, and says CONNECT within two seconds. Its user name and password are
a token, if it has some. If another connection has the same client id, that one ends. From then on
the client is one of the broker's: :meth:`ges.sessions.clients.Clients.serve` reads it and writes to
it over an :class:`~ges.mqtt.stream.MqttStream`.
"""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from functools import partial
from hashlib import sha256
from time import time_ns

import trio

from ges.broker import Broker
from ges.errors import MqttError
from ges.http.listening import why_not_listening
from ges.mqtt import writing
from ges.mqtt.codec import PacketReader, packed_binary, wrong
from ges.mqtt.gateway import Gateway
from ges.mqtt.greeting import greet
from ges.mqtt.last_word import LastWord
from ges.mqtt.mapping import Publisher
from ges.mqtt.packets import MQTT_5, Connect, Kind
from ges.mqtt.reading import PROTOCOL_NAME, read_connect
from ges.mqtt.reasons import Reason
from ges.mqtt.settings import MqttSettings
from ges.mqtt.stream import READ_BYTES, MqttFrames, MqttStream, Signs
from ges.sessions.letting_in import LetIn
from overlay.errors import ConfigError, ProtocolError
from overlay.ids import LinkClass
from overlay.links.doorkeeper import Doorkeeper
from overlay.net.connection import BROKEN
from overlay.net.transport import Wire, remote_end
from overlay.shares import Shares, source_of
from overlay.wire.codec import FrameReader
from overlay.wire.frames import PROTOCOL_VERSION
from overlay.wire.greetings import Hello
from overlay.wording import printable

CONNECT_BYTES = 64 * 1024  #: of the first packet, its will included
MORE_BYTES = 8 * 1024  #: that a packet may have beside the payload
TAKE_OVER_SECONDS = 5.0  #: for a connection to end, when the same client has come anew
NAMED = packed_binary(PROTOCOL_NAME)  #: how a CONNECT packet begins ...
LEVEL_AT = len(NAMED)  #: ... and where the protocol's level is
CLOSE_SECONDS = 1.0
KEEP_IDLE_SECONDS = 60  #: then the kernel asks whether the other end is there

#: Reasons of daily work to end a connection, or such as are logged elsewhere: not logged here.
_ORDINARY = frozenset(
    {Reason.ADMINISTRATIVE, Reason.TAKEN_OVER, Reason.SHUTTING_DOWN, Reason.NOT_AUTHORIZED}
)


async def listen(settings: MqttSettings) -> list[trio.SocketListener]:
    """Listen; who connects waits until a door serves it.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    host, port = settings.host, settings.port
    try:
        return await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise ConfigError(
            f"--mqtt {host}:{port}: {why_not_listening(error)}; give another address or port"
        ) from error


class MqttDoor:
    """Serves MQTT clients; :meth:`run` does until it is cancelled."""

    def __init__(
        self, broker: Broker, settings: MqttSettings, listeners: list[trio.SocketListener]
    ) -> None:
        """``broker`` is on the ring; ``listeners``: of :func:`listen`."""
        self.port: int = listeners[0].socket.getsockname()[1]
        self._listeners = listeners
        self._settings = settings
        self._broker = broker
        self._limits = broker.parts.limits
        self._clients = broker.parts.clients
        self._counted_log = broker.driver.counted_log
        self._doorkeeper = Doorkeeper(self._limits)
        strangers, of_one = self._limits.strangers // 2, self._limits.strangers_per_host
        self._strangers = Shares(strangers, of_one=of_one, reserved=0)
        #: By who it is, as rules know it, and by its client id.
        self._served: dict[tuple[str, str], MqttStream] = {}

    @property
    def url(self) -> str:
        """Where MQTT clients find it."""
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"{'mqtt' if self._settings.tls is None else 'mqtts'}://{host}:{self.port}"

    @property
    def size(self) -> int:
        """How many MQTT clients are attached."""
        return len(self._served)

    async def run(self) -> None:
        """Serve all that connect."""
        await trio.serve_listeners(self._serve, self._listeners)

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            host, port = remote_end(stream)
            if host is None or port is None:  # it is gone already
                return
            if not self._doorkeeper.admit(host, self._broker.driver.now()):
                self._counted_log.note("mqtt_turned_away", "too many new connections", host=host)
                return
            if not self._broker.driver.has_room:
                self._counted_log.note("mqtt_turned_away", "too many connections", host=host)
                return
            driver = self._broker.driver
            with driver.counted():
                serve = partial(self._until_gone, stream, port=port)
                await driver.bulkhead.contain(serve, host)

    async def _until_gone(self, stream: trio.SocketStream, host: str, *, port: int) -> None:
        with suppress(*BROKEN):
            await self.converse(stream, host, port)

    async def converse(self, plain: trio.abc.Stream, host: str, port: int) -> None:
        """Serve one connection, of a client at that address and port, until it ends."""
        source = source_of(host, None)
        if self._strangers.crowd(source) is not None:
            self._counted_log.note("mqtt_turned_away", "too many strangers", host=host)
            return
        self._strangers.take(source)
        try:
            with trio.fail_after(self._limits.handshake_seconds):
                signs = Signs(plain)
                stream = await self._secured(signs)
                found = await self._hear_out(stream, host)
        except trio.TooSlowError:
            self._counted_log.note("mqtt_greetings_late", "no CONNECT in time", host=host)
            return
        finally:
            self._strangers.free(source)
        if found is not None:
            connect, reader = found
            _watch(plain)
            try:
                await self._admit(Wire(stream, None, host, port), host, connect, reader, signs)
            finally:
                with trio.move_on_after(CLOSE_SECONDS):  # TLS says good-bye
                    await stream.aclose()

    async def _secured(self, plain: trio.abc.Stream) -> trio.abc.Stream:
        if self._settings.tls is None:
            return plain
        context = self._settings.tls.context()
        secured = trio.SSLStream(plain, context, server_side=True, https_compatible=True)
        await secured.do_handshake()
        return secured

    async def _hear_out(
        self, stream: trio.abc.Stream, host: str
    ) -> tuple[Connect, PacketReader] | None:
        """Return the client's first packet, and what has come behind it; None: there is none."""
        reader = PacketReader(CONNECT_BYTES)
        body = b""
        try:
            while (found := reader.next()) is None:
                data = await stream.receive_some(READ_BYTES)
                if not data:
                    return None
                reader.feed(data)
                if reader.first_byte != Kind.CONNECT << 4:
                    raise wrong("the first packet is no CONNECT")
            first, body = found
            return read_connect(first, body), reader
        except MqttError as error:
            self._note_wrong(error, host)
            level = body[LEVEL_AT] if body.startswith(NAMED) and len(body) > LEVEL_AT else 0
            if error.reason == Reason.UNSUPPORTED_VERSION or level == MQTT_5:
                told = writing.told(str(error))
                answer = writing.connack(error.reason, min(level, MQTT_5), told)
                await stream.send_all(answer)
            return None

    # ── a client has greeted ──────────────────────────────────────────────────────────────────

    async def _admit(
        self, wire: Wire, host: str, connect: Connect, reader: PacketReader, signs: Signs
    ) -> None:
        stream = wire.stream
        packet_bytes = self._limits.payload_bytes + MORE_BYTES
        try:
            greeted = greet(connect, f"chordal-{secrets.token_hex(8)}", packet_bytes)
        except MqttError as error:
            self._note_wrong(error, host)
            await self._refuse(stream, connect.level, error.reason, str(error))
            return
        certificate = self._certificate_of(stream)
        found = self._judge(connect, host, certificate)
        if not isinstance(found, LetIn):
            await self._refuse(stream, connect.level, Reason.BAD_CREDENTIALS, found)
            return
        if certificate is None and self._asks_certificates:
            why = "show a certificate of an authority in client-ca.crt"
            await self._refuse(stream, connect.level, Reason.NOT_AUTHORIZED, why)
            return
        reader.limit = packet_bytes
        key = (found.admitted.principal.label, greeted.client_id)
        publisher = Publisher(secrets.token_bytes(16), 1)
        gateway = Gateway(connect, greeted, publisher, reader, time_ns)
        earlier = self._served.get(key)
        served = self._served[key] = MqttStream(
            stream,
            gateway,
            signs,
            keep_alive_s=greeted.keep_alive_s,
            packet_seconds=self._limits.frame_seconds,
            pulse_seconds=self._limits.client_silence_seconds / 3,
        )
        self._counted_log.count("mqtt_clients_attached")
        try:
            if earlier is not None:
                await self._end_earlier(earlier)
            if gateway.is_over:  # a third one has come meanwhile
                return
            called = greeted.client_id
            own = Wire(served, None, host, wire.port)
            await self._attach(publisher.uid, own, MqttFrames(gateway), found, called)
            if not gateway.is_over:
                await served.let_go()
            if gateway.has_will:  # it was the broker that let go of the client
                gateway.take_will()
                word = LastWord(bytes(gateway.to_broker))
                now = self._judge(connect, host, certificate)  # it may have changed, or ended
                if isinstance(now, LetIn):
                    own = Wire(word, None, host, wire.port)
                    await self._attach(publisher.uid, own, FrameReader(), now, called)
        finally:
            served.ended.set()
            if self._served.get(key) is served:
                del self._served[key]
            if gateway.ended_for is not None:
                self._note_end(*gateway.ended_for, greeted.client_id, wire)
            self._counted_log.count("mqtt_messages_refused", gateway.refused)
            self._counted_log.count("mqtt_messages_too_large", gateway.too_large)
            self._counted_log.count("mqtt_events_unmapped", gateway.unmapped)

    def _judge(self, connect: Connect, host: str, certificate: str | None) -> LetIn | str:
        is_private = self._settings.tls is not None
        return self._clients.judge_password(
            connect.user, connect.password, host, certificate, is_private=is_private
        )

    async def _attach(
        self, uid: bytes, wire: Wire, reader: FrameReader, found: LetIn, client_id: str
    ) -> None:
        hello = Hello(
            self._broker.config.overlay,
            PROTOCOL_VERSION,
            uid.hex(),
            1,
            None,
            LinkClass.NORMAL,
            None,
            0,
        )
        with suppress(ProtocolError):
            await self._clients.serve(hello, wire, reader, found, mqtt_client_id=client_id)

    async def _end_earlier(self, earlier: MqttStream) -> None:
        """End the connection that the same client has, and let its will go first."""
        self._counted_log.count("mqtt_clients_taken_over")
        earlier.take_over()
        with trio.move_on_after(TAKE_OVER_SECONDS):
            await earlier.ended.wait()

    @property
    def _asks_certificates(self) -> bool:
        return self._settings.tls is not None and self._settings.tls.asks_certificates

    def _certificate_of(self, stream: trio.abc.Stream) -> str | None:
        """Return the fingerprint of the certificate that a client has shown and that counts."""
        if not self._asks_certificates or not isinstance(stream, trio.SSLStream):
            return None
        shown: bytes | None = stream.getpeercert(binary_form=True)
        return sha256(shown).hexdigest() if shown is not None else None

    async def _refuse(self, stream: trio.abc.Stream, level: int, reason: int, why: str) -> None:
        properties = writing.told(why)
        with trio.move_on_after(self._limits.handshake_seconds):
            await stream.send_all(writing.connack(reason, level, properties))

    def _note_end(self, reason: int, why: str, client_id: str, wire: Wire) -> None:
        """A client was cut off that had been let in; name it as its own people know it."""
        who = {"mqtt_client_id": printable(client_id), "host": wire.remote, "port": wire.port}
        if reason == Reason.KEEP_ALIVE:
            self._counted_log.note("clients_silent", "client silent, given up", **who)
        elif reason not in _ORDINARY:
            text = "MQTT client cut off"
            self._counted_log.note("mqtt_protocol_errors", text, why=printable(why), **who)

    def _note_wrong(self, error: MqttError, host: str) -> None:
        why = printable(str(error))
        self._counted_log.note("mqtt_protocol_errors", "MQTT client refused", why=why, host=host)


def _watch(stream: trio.abc.Stream) -> None:
    """Let the kernel ask now and then whether the other end of a TCP connection is there."""
    if isinstance(stream, trio.SocketStream):
        with suppress(OSError):
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            stream.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_IDLE_SECONDS)
