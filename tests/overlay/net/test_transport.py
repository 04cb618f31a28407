"""TCP and TLS on real sockets of loopback: one port for both, and clear words when it fails."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio

import overlay.authority.certificates
from benchmarks.stage.waiting import until
from overlay.address import Address, parse_endpoint, parse_url
from overlay.authority.authority import Authority, issue_identity
from overlay.errors import ConfigError, ConnectionFailed, ProtocolError
from overlay.ids import LinkClass, Peer, Uid
from overlay.limits import Limits
from overlay.links.first_message import read_greeting
from overlay.machine import (
    Closed,
    LinkDown,
    LinkRefused,
    LinkUp,
    MessageReceived,
    OpenLink,
    Refused,
    Send,
)
from overlay.net.call_failures import is_cut
from overlay.net.transport import TcpTransport, Wire, close
from overlay.security.identity import Identity, PeerIdentity, Role
from overlay.security.tls_handshake import server_context
from overlay.wire.codec import FrameReader
from overlay.wire.frames import PROTOCOL_VERSION
from overlay.wire.greetings import GREETINGS, Hello, Refusal, Welcome
from tests.helpers.stations import CODEC, Beat, Knock, Station
from tests.overlay.conftest import DAY, Issue

DEADLINE_SECONDS = 10


class Door:
    """A listening transport, and what became of each caller."""

    def __init__(self, nursery: trio.Nursery, identity: Identity | None) -> None:
        self.transport = TcpTransport(identity)
        self.nursery = nursery
        self.wires: list[Wire] = []
        self.turned_away: list[str] = []
        self.port = 0

    async def open(self) -> Door:
        self.port = await self.transport.listen("127.0.0.1", 0)
        await self.nursery.start(self.transport.serve, self._answer)
        return self

    def address(self, *, tls: bool = False) -> Address:
        return Address("127.0.0.1", self.port, tls)

    async def _answer(self, stream: trio.abc.Stream) -> None:
        try:
            wire = await self.transport.accept(stream)
        except ProtocolError as error:
            self.turned_away.append(str(error))
            await close(stream)
            return
        self.wires.append(wire)
        await wire.stream.send_all(await wire.stream.receive_some(100))
        await close(wire.stream)


async def echo(wire: Wire) -> bytes:
    """Say something and return what comes back."""
    async with wire.stream:
        await wire.stream.send_all(b"hello")
        return bytes(await wire.stream.receive_some(100))


async def failure(transport: TcpTransport, address: Address) -> str:
    with trio.fail_after(DEADLINE_SECONDS), pytest.raises(ConnectionFailed) as caught:
        await transport.connect(address)
    assert caught.value.url == address.url
    assert "\n" not in caught.value.reason
    return caught.value.reason


async def test_plain_and_tls_come_in_by_one_door(issue: Issue, nursery: trio.Nursery) -> None:
    broker, caller = issue("broker"), issue("caller", Role.CLIENT)
    door = await Door(nursery, broker).open()
    plain = await TcpTransport(None).connect(door.address())
    secured = await TcpTransport(caller).connect(door.address(tls=True))
    assert plain.identity is None
    assert secured.identity == PeerIdentity(broker.uid, Role.BROKER)
    assert await echo(secured) == b"hello"
    assert await echo(plain) == b"hello"
    assert [wire.identity for wire in door.wires] == [
        PeerIdentity(caller.uid, Role.CLIENT),
        None,
    ]


async def test_tls_where_there_is_no_identity(issue: Issue, nursery: trio.Nursery) -> None:
    door = await Door(nursery, None).open()
    reason = await failure(TcpTransport(issue("caller")), door.address(tls=True))
    assert "no TLS" in reason
    assert "no identity" in door.turned_away[0]


async def test_tls_without_an_identity_of_ones_own(issue: Issue, nursery: trio.Nursery) -> None:
    door = await Door(nursery, issue("broker")).open()
    assert "--identity" in await failure(TcpTransport(None), door.address(tls=True))


async def test_a_caller_of_another_authority(
    issue: Issue, foreign: Authority, nursery: trio.Nursery
) -> None:
    door = await Door(nursery, issue("broker")).open()
    stranger = TcpTransport(issue("stranger", signer=foreign))
    assert "is not of this authority" in await failure(stranger, door.address(tls=True))
    await until(lambda: door.turned_away)
    assert door.wires == []


async def test_the_listener_must_be_a_broker(issue: Issue, nursery: trio.Nursery) -> None:
    """A client's certificate does not let its holder pose as a broker."""
    imposter = issue("imposter", Role.CLIENT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(imposter.certificate, imposter.key)

    async def pose(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, context, server_side=True)
        with pytest.raises(trio.BrokenResourceError):
            await secured.do_handshake()
        await trio.aclose_forcefully(secured)

    listeners = await nursery.start(trio.serve_tcp, pose, 0)
    port = listeners[0].socket.getsockname()[1]
    transport = TcpTransport(issue("caller"))
    assert "no TLS" in await failure(transport, Address("127.0.0.1", port, tls=True))
    nursery.cancel_scope.cancel()


async def test_a_role_counts_beside_the_purpose(
    issue: Issue, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client's certificate that TLS would take at the accepting end makes no broker of it."""
    uses = overlay.authority.certificates._USES
    monkeypatch.setitem(uses, Role.CLIENT, uses[Role.BROKER])
    imposter = replace(issue("imposter", Role.CLIENT), role=Role.BROKER)

    async def pose(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, server_context(imposter), server_side=True)
        with contextlib.suppress(trio.BrokenResourceError):
            await secured.do_handshake()
            await secured.receive_some(1)
        await trio.aclose_forcefully(secured)

    listeners = await nursery.start(trio.serve_tcp, pose, 0)
    port = listeners[0].socket.getsockname()[1]
    transport = TcpTransport(issue("caller"))
    assert "a broker is wanted" in await failure(transport, Address("127.0.0.1", port, tls=True))
    nursery.cancel_scope.cancel()


async def test_nobody_listens() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        reason = await failure(TcpTransport(None), Address("127.0.0.1", port))
    assert reason == "connection refused"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
@pytest.mark.parametrize(
    ("code", "was_cut"), [(errno.ECONNRESET, True), (errno.ECONNREFUSED, False)]
)
async def test_a_connection_that_is_cut_as_it_is_made(
    monkeypatch: pytest.MonkeyPatch, host: str, code: int, was_cut: bool
) -> None:
    async def fail(self: object, address: object) -> None:
        raise OSError(code, "as the system says")

    with trio.socket.socket() as some:
        monkeypatch.setattr(type(some), "connect", fail)
    with pytest.raises(ConnectionFailed) as failed:
        await TcpTransport(None).connect(Address(host, 1))
    assert failed.value.was_cut is was_cut


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_why_a_host_is_not_reached_is_said_in_the_systems_words(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    async def fail(self: object, address: object) -> None:
        raise OSError(errno.EHOSTUNREACH, f"Error connecting to {address}: whatever")

    with trio.socket.socket() as some:
        monkeypatch.setattr(type(some), "connect", fail)
    assert await failure(TcpTransport(None), Address(host, 1)) == "no route to host"


async def test_an_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("a resolver is asked")

    monkeypatch.setattr(trio, "open_tcp_stream", fail)
    assert await failure(TcpTransport(None), Address("127.0.0.1", 1)) == "connection refused"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_hosts_are_reached_by_address_and_by_name(host: str) -> None:
    family = socket.AF_INET6 if host == "::1" else socket.AF_INET
    try:
        listening = socket.create_server((host, 0), family=family)
    except OSError:
        if host == "127.0.0.1":
            raise
        pytest.skip(f"{host} is not to be had here")
    with listening:
        port = listening.getsockname()[1]
        wire = await TcpTransport(None).connect(Address(host, port))
        listening.settimeout(5)
        theirs, _ = listening.accept()
        with theirs:
            await wire.stream.send_all(b"hello")
            assert theirs.recv(5) == b"hello"
        await wire.stream.aclose()


@pytest.mark.parametrize(
    ("cause", "cut"),
    [
        (OSError(errno.ECONNRESET, "reset"), True),
        (ssl.SSLEOFError("eof"), True),
        (ssl.SSLCertVerificationError("not ours"), False),
        (ssl.SSLError("alert"), False),
    ],
)
def test_ends_that_do_not_agree_on_tls_are_not_called_again(cause: OSError, cut: bool) -> None:
    wrapped = trio.BrokenResourceError()
    wrapped.__cause__ = cause
    assert (is_cut(cause), is_cut(wrapped)) == (cut, cut)


async def test_a_tls_handshake_that_is_cut(issue: Issue, nursery: trio.Nursery) -> None:
    """By whoever it was; who has no identity hangs up as well."""
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    address = Address("127.0.0.1", listener.socket.getsockname()[1], tls=True)

    async def hang_up() -> None:
        async with listener:
            await (await listener.accept()).aclose()

    nursery.start_soon(hang_up)
    with pytest.raises(ConnectionFailed, match="no TLS") as failed:
        await TcpTransport(issue("caller")).connect(address)
    assert failed.value.was_cut
    nursery.cancel_scope.cancel()


async def test_a_host_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(trio.socket, "getaddrinfo", unknown)
    reason = await failure(TcpTransport(None), Address("nowhere.test", 1))
    assert reason == "no such host (Name or service not known)"


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "a\0b"])
def test_a_host_that_cannot_be_is_refused_before_it_is_looked_up(host: str) -> None:
    for parse in (parse_url, parse_endpoint):
        prefix = "chordal://" if parse is parse_url else ""
        with pytest.raises(ConfigError, match="cannot be the name of a host"):
            parse(f"{prefix}{host}:1")


async def test_an_address_in_use() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: another process listens"):
            await TcpTransport(None).listen("127.0.0.1", port)


async def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0: .*assign"):
        await TcpTransport(None).listen("192.0.2.1", 0)


# Certificates and greetings must agree


Stations = Callable[[str, Role], Awaitable[tuple[Station, Address]]]


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def station(
    authority: Authority, tmp_path: Path, nursery: trio.Nursery, limits: Limits
) -> Stations:
    """Start a driver on TCP; its certificate names the uid of its machine."""

    async def station(name: str, role: Role = Role.BROKER) -> tuple[Station, Address]:
        identity = issue_identity(
            authority, tmp_path / name, role=role, uid=Uid(name * 32), lifetime=DAY
        )
        transport = TcpTransport(identity)
        made = Station(name, transport, limits=limits)
        address = Address("127.0.0.1", await transport.listen("127.0.0.1", 0))
        await nursery.start(made.driver.run)
        return made, address

    return station


def hello(uid: str, *, client: bool = False, secure: bool = True) -> Hello:
    peer = None if client else Peer(uid, 1, "chordal://c.test:9470", secure=True)
    link_class = LinkClass.SECURE if secure else LinkClass.NORMAL
    return Hello("chordal", PROTOCOL_VERSION, uid, 1, peer, link_class, None, 1)


async def greet(identity: Identity | None, address: Address, greeting: Hello) -> object:
    """Call as a stranger may, and return the answer."""
    wire = await TcpTransport(identity).connect(
        Address(address.host, address.port, tls=identity is not None)
    )
    async with wire.stream:
        await wire.stream.send_all(GREETINGS.encode(greeting))
        with trio.fail_after(DEADLINE_SECONDS):
            return await read_greeting(wire.stream, FrameReader())


async def test_a_secure_link(station: Stations) -> None:
    (a, _), (b, address) = await station("a", Role.BROKER), await station("b", Role.BROKER)
    a.do(OpenLink(address.url, b.peer.uid, link_class=LinkClass.SECURE))
    await until(lambda: a.took(LinkUp) and b.took(LinkUp))
    for here, there in ((a, b), (b, a)):
        link = here.driver.links[there.peer.uid, LinkClass.SECURE]
        assert link.connection.secure
        assert (link.connection.cipher or "").startswith("TLSv1.3 ")
        assert here.took(LinkUp)[0].link_class is LinkClass.SECURE


async def test_no_control_message_travels_on_a_secure_link(station: Stations) -> None:
    (a, _), (b, address) = await station("a", Role.BROKER), await station("b", Role.BROKER)
    a.do(OpenLink(address.url, b.peer.uid, link_class=LinkClass.SECURE))
    await until(lambda: a.took(LinkUp) and b.took(LinkUp))
    a.do(Send(b.peer.uid, Beat(1)))
    assert a.driver.counters["control_messages_sent"] == 0
    a.driver.links[b.peer.uid, LinkClass.SECURE].connection.send(CODEC.encode(Beat(1)))
    await until(lambda: b.took(LinkDown))
    assert b.took(LinkDown) == [LinkDown(a.peer.uid, Closed.PROTOCOL, LinkClass.SECURE)]
    assert b.took(MessageReceived) == []


async def test_a_message_about_a_link_travels_on_that_link(station: Stations) -> None:
    (a, _), (b, address) = await station("a", Role.BROKER), await station("b", Role.BROKER)
    a.do(OpenLink(address.url, b.peer.uid, link_class=LinkClass.SECURE))
    await until(lambda: a.took(LinkUp) and b.took(LinkUp))
    a.do(Send(b.peer.uid, Knock(7), link_class=LinkClass.SECURE))
    await until(lambda: b.took(MessageReceived))
    assert b.took(MessageReceived) == [MessageReceived(a.peer.uid, Knock(7), LinkClass.SECURE)]


@pytest.mark.parametrize(
    ("role", "uid", "greeting"),
    [
        (Role.BROKER, "c", hello("d" * 32)),
        (Role.CLIENT, "c", hello("c" * 32)),
        (Role.CLIENT, "c", hello("d" * 32, client=True)),
        (None, "c", hello("c" * 32)),
    ],
    ids=["another uid", "client as broker", "client with another uid", "no certificate"],
)
async def test_a_greeting_that_the_certificate_does_not_bear_out(
    station: Stations,
    authority: Authority,
    tmp_path: Path,
    role: Role | None,
    uid: str,
    greeting: Hello,
) -> None:
    a, address = await station("a", Role.BROKER)
    identity = None
    if role is not None:
        identity = issue_identity(
            authority, tmp_path / "caller", role=role, uid=Uid(uid * 32), lifetime=DAY
        )
    refusal = await greet(identity, address, greeting)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Refused.NOT_AUTHENTICATED
    assert a.machine.inputs == []
    assert a.clients == []


async def test_the_called_must_be_whom_its_certificate_names(
    station: Stations, issue: Issue, nursery: trio.Nursery
) -> None:
    a, _ = await station("a", Role.BROKER)
    door = Door(nursery, issue("liar"))

    async def lie(stream: trio.abc.Stream) -> None:
        wire = await door.transport.accept(stream)
        peer = Peer("b" * 32, 1, "chordal://b.test:9470", secure=True)
        await wire.stream.send_all(GREETINGS.encode(Welcome(peer, 1, PROTOCOL_VERSION)))
        await close(wire.stream)

    port = await door.transport.listen("127.0.0.1", 0)
    await nursery.start(door.transport.serve, lie)
    url = Address("127.0.0.1", port).url
    a.do(OpenLink(url, "b" * 32, link_class=LinkClass.SECURE))
    await until(lambda: a.took(LinkRefused))
    assert a.took(LinkRefused)[0].reason is Refused.NOT_AUTHENTICATED
    assert a.linked == []


@pytest.mark.parametrize("limits", [Limits(handshake_seconds=0.1)])
@pytest.mark.parametrize("first", [b"\x16", b"\x16\x03\x01\x02\x00" + bytes(100)])
async def test_half_a_tls_handshake_is_dropped_in_time(station: Stations, first: bytes) -> None:
    a, address = await station("a", Role.BROKER)
    stream = await trio.open_tcp_stream(address.host, address.port)
    async with stream:
        await stream.send_all(first)
        with trio.fail_after(DEADLINE_SECONDS):
            while await stream.receive_some():
                pass
    await until(lambda: a.driver.counters["strangers_dropped"] == 1)


async def test_callers_that_hang_up_at_once(station: Stations) -> None:
    (a, _), (b, address) = await station("a", Role.BROKER), await station("b", Role.BROKER)
    for _ in range(50):
        await (await trio.open_tcp_stream(address.host, address.port)).aclose()
    await until(lambda: b.driver.counters["strangers_dropped"] == 50)
    a.do(OpenLink(address.url, b.peer.uid))
    await until(lambda: a.linked == ["b"])


@pytest.mark.parametrize("limits", [Limits(connections_per_second=0.001, connections_at_once=3)])
async def test_an_address_that_calls_too_often_is_turned_away(station: Stations) -> None:
    a, address = await station("a", Role.BROKER)
    for _ in range(10):
        stream = await trio.open_tcp_stream(address.host, address.port)
        await stream.aclose()
    await until(lambda: a.driver.counters["connections_too_fast"] == 7)
    assert a.driver.counters["strangers_gone"] == 3
    elsewhere = await trio.open_tcp_stream(address.host, address.port, local_address="127.0.0.2")
    async with elsewhere:
        await elsewhere.send_all(GREETINGS.encode(hello("c" * 32, secure=False)))
        assert isinstance(await read_greeting(elsewhere, FrameReader()), Welcome)


async def test_running_out_of_files_is_waited_out(
    station: Stations, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, address = await station("a", Role.BROKER)
    silent = await trio.open_tcp_stream(address.host, address.port)
    accept = trio.SocketListener.accept
    failing = 2

    async def out_of_files(listener: trio.SocketListener) -> trio.SocketStream:
        nonlocal failing
        stream = await accept(listener)
        if failing:
            failing -= 1
            await stream.aclose()
            raise OSError(errno.EMFILE, "too many open files")
        return stream

    await until(lambda: a.driver.strangers == 1)
    monkeypatch.setattr(trio.SocketListener, "accept", out_of_files)
    for _ in range(4):  # one is taken by the accept that waits already
        await (await trio.open_tcp_stream(address.host, address.port)).aclose()
    await until(lambda: a.driver.counters["accepts_failed"] == 2)
    assert a.driver.counters["strangers_evicted"] >= 1, "strangers make room"
    async with silent:
        with trio.fail_after(DEADLINE_SECONDS):
            assert await silent.receive_some() == b""
    stream = await trio.open_tcp_stream(address.host, address.port)
    async with stream:
        await stream.send_all(GREETINGS.encode(hello("c" * 32, secure=False)))
        assert isinstance(await read_greeting(stream, FrameReader()), Welcome)
