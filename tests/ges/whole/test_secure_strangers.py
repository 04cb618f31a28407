"""Strangers at the TLS port: each kind is refused, counted by its name and logged once."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.broker import Broker
from overlay.address import parse_url
from overlay.authority.authority import create_authority, issue_identity
from overlay.ids import LinkClass, Peer
from overlay.limits import Limits
from overlay.links.first_message import read_greeting
from overlay.machine import Refused
from overlay.net.transport import TcpTransport
from overlay.security.identity import Role, load_identity
from overlay.security.tls_handshake import ALPN, client_context
from overlay.wire.codec import FrameReader
from overlay.wire.frames import PROTOCOL_VERSION
from overlay.wire.greetings import GREETINGS, Hello, Refusal
from tests.ges.conftest import Issue

UNTRUSTED, NO_TLS, NOT_CHORDAL = "strangers_untrusted", "strangers_no_tls", "strangers_not_chordal"
TIMES = 3
OTHER_UID = "d" * 32


def calm(context: ssl.SSLContext) -> ssl.SSLContext:
    """Let a caller believe whatever it is shown: how the called judges it is the question."""
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.fixture
def foreign(tmp_path: Path) -> ssl.SSLContext:
    """What somebody of another overlay shows."""
    day = timedelta(days=1)
    authority = create_authority(tmp_path / "other", name="other", lifetime=day)
    issue_identity(authority, tmp_path / "spy", role=Role.CLIENT, lifetime=day)
    return calm(client_context(load_identity(tmp_path / "spy")))


@pytest.fixture
async def expired(issue: Issue) -> ssl.SSLContext:
    before = datetime.now(UTC)
    identity = load_identity(issue(Role.CLIENT, timedelta(seconds=1)), now=before)
    context = calm(client_context(identity))
    await until(lambda: datetime.now(UTC) > identity.not_after + timedelta(seconds=1))
    return context


@pytest.fixture
def nobody() -> ssl.SSLContext:
    context = calm(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.set_alpn_protocols([ALPN])
    return context


@pytest.fixture
def old() -> ssl.SSLContext:
    context = calm(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


@pytest.fixture
def web(issue: Issue) -> ssl.SSLContext:
    """One of this overlay that speaks something else within TLS."""
    context = calm(client_context(load_identity(issue(Role.CLIENT))))
    context.set_alpn_protocols(["http/1.1"])
    return context


@pytest.fixture
def contexts(
    foreign: ssl.SSLContext,
    expired: ssl.SSLContext,
    nobody: ssl.SSLContext,
    old: ssl.SSLContext,
    web: ssl.SSLContext,
) -> dict[str, ssl.SSLContext]:
    """By who they make of the caller."""
    return {"foreign": foreign, "expired": expired, "nobody": nobody, "old": old, "web": web}


async def call(broker: Broker, context: ssl.SSLContext | None) -> None:
    """Call as TLS has it, and listen to the end; without context, say something else."""
    address = parse_url(broker.url)
    stream = await trio.open_tcp_stream(address.host, address.port)
    try:
        if context is None:
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
            await stream.receive_some()
        else:
            secured = trio.SSLStream(stream, context, https_compatible=True)
            await secured.do_handshake()
            await secured.receive_some()
    except trio.BrokenResourceError:
        pass
    finally:
        await trio.aclose_forcefully(stream)


@pytest.mark.parametrize(
    ("who", "kind"),
    [
        ("foreign", UNTRUSTED),
        ("expired", UNTRUSTED),
        ("nobody", UNTRUSTED),
        ("old", NO_TLS),
        ("web", NO_TLS),
        (None, NOT_CHORDAL),
    ],
)
async def test_each_kind_is_counted_and_logged_once(
    brokers: Brokers,
    issue: Issue,
    contexts: dict[str, ssl.SSLContext],
    who: str | None,
    kind: str,
) -> None:
    broker = await brokers.start(identity=issue(Role.BROKER))
    context = contexts[who] if who is not None else None
    with structlog.testing.capture_logs() as lines, trio.fail_after(20):
        for _ in range(TIMES):
            await call(broker, context)
        await until(lambda: broker.driver.counters["strangers_dropped"] == TIMES)
    assert {
        name: broker.driver.counters[name] for name in (UNTRUSTED, NO_TLS, NOT_CHORDAL)
    } == dict.fromkeys((UNTRUSTED, NO_TLS, NOT_CHORDAL), 0) | {kind: TIMES}
    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert [line["event"] for line in warnings] == ["stranger dropped"]


async def test_a_handshake_that_is_not_finished_counts_as_too_slow(
    brokers: Brokers, issue: Issue
) -> None:
    """As a greeting does: what would have come of it nobody knows."""
    limits = Limits(handshake_seconds=0.2)
    broker = await brokers.start(identity=issue(Role.BROKER), limits=limits)
    address = parse_url(broker.url)
    async with await trio.open_tcp_stream(address.host, address.port) as stream:
        await stream.send_all(client_hello()[:50])
        with trio.fail_after(20):
            assert await stream.receive_some() == b""
    counters = broker.driver.counters
    assert (counters["strangers_too_slow"], counters[NO_TLS]) == (1, 0)


def client_hello() -> bytes:
    """What a TLS client says first."""
    sent = ssl.MemoryBIO()
    session = calm(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)).wrap_bio(ssl.MemoryBIO(), sent)
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return sent.read()


async def test_tls_where_there_is_no_identity_is_counted_so(
    brokers: Brokers, nobody: ssl.SSLContext
) -> None:
    broker = await brokers.start()
    await call(broker, nobody)
    await until(lambda: broker.driver.counters[NO_TLS] == 1)


@pytest.mark.parametrize(
    ("role", "uid", "as_peer", "why"),
    [
        (Role.BROKER, OTHER_UID, True, "the certificate names another uid"),
        (Role.CLIENT, OTHER_UID, False, "the certificate names another uid"),
        (Role.CLIENT, None, True, "the certificate is not a broker's"),
    ],
    ids=["broker", "client", "client as broker"],
)
async def test_who_claims_what_its_certificate_does_not_bear_out_is_logged_once(
    brokers: Brokers, issue: Issue, role: Role, uid: str | None, as_peer: bool, why: str
) -> None:
    broker = await brokers.start(identity=issue(Role.BROKER))
    assert broker.secure_url is not None
    identity = load_identity(issue(role))
    claimed = uid or identity.uid
    peer = Peer(claimed, 1, "chordal://127.0.0.1:1", secure=True) if as_peer else None
    greeting = Hello("chordal", PROTOCOL_VERSION, claimed, 1, peer, LinkClass.SECURE, None, 1)
    with structlog.testing.capture_logs() as lines, trio.fail_after(20):
        for _ in range(TIMES):
            wire = await TcpTransport(identity).connect(parse_url(broker.secure_url))
            async with wire.stream:
                await wire.stream.send_all(GREETINGS.encode(greeting))
                refusal = await read_greeting(wire.stream, FrameReader())
            assert refusal == Refusal(Refused.NOT_AUTHENTICATED, why)
    assert broker.driver.counters["greetings_refused_not_authenticated"] == TIMES
    (line,) = [line for line in lines if line["log_level"] == "warning"]
    assert (line["event"], line["why"], line["host"]) == ("greeting refused", why, "127.0.0.1")
