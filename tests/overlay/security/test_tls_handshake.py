"""TLS between identities: who gets in, who does not, and what each end learns of the other."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
import trio.testing

from overlay.authority.authority import Authority, issue_identity
from overlay.errors import IdentityError, ProtocolError
from overlay.security.identity import Identity, PeerIdentity, Role
from overlay.security.tls_handshake import (
    ALPN,
    client_context,
    peer_identity,
    require_role,
    server_context,
)
from tests.overlay.conftest import DAY, Issue

DEADLINE_SECONDS = 10

Stream = trio.SSLStream[trio.abc.Stream]


@pytest.fixture
def anonymous(authority: Authority) -> ssl.SSLContext:
    """A caller that trusts the right authority and has nothing to show for itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(authority.directory / "authority.crt")
    context.set_alpn_protocols([ALPN])
    return context


@pytest.fixture
def expired(authority: Authority, tmp_path: Path) -> Identity:
    past = datetime.now(UTC) - 2 * DAY
    return issue_identity(authority, tmp_path / "expired", role=Role.BROKER, lifetime=DAY, now=past)


def on_memory(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[Stream, Stream]:
    ours, theirs = trio.testing.memory_stream_pair()
    return (
        trio.SSLStream(ours, server, server_side=True),
        # No certificate names this host: peers are checked by uid.
        trio.SSLStream(theirs, client, server_hostname="elsewhere.example"),
    )


async def exchange(server: Stream, client: Stream) -> tuple[str | None, str | None]:
    """Shake hands and pass one byte from the server: why each end failed, None where it did not."""
    reasons: dict[Stream, str] = {}

    async def play(stream: Stream) -> None:
        try:
            await stream.do_handshake()
            if stream is server:
                await stream.send_all(b"!")
            elif await stream.receive_some(1) != b"!":
                reasons[stream] = "closed"
        except trio.BrokenResourceError as error:
            reasons[stream] = str(error.__cause__)
            await trio.aclose_forcefully(stream)

    with trio.fail_after(DEADLINE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(play, server)
            nursery.start_soon(play, client)
    return reasons.get(server), reasons.get(client)


async def refusals(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[str, str]:
    """Both ends' reasons for a link that must not come up."""
    ours, theirs = await exchange(*on_memory(server, client))
    assert ours is not None
    assert theirs is not None
    return ours, theirs


@pytest.mark.parametrize("role", list(Role))
async def test_each_end_learns_the_other(issue: Issue, role: Role) -> None:
    listener, caller = issue("listener"), issue("caller", role)
    server, client = on_memory(server_context(listener), client_context(caller))
    assert await exchange(server, client) == (None, None)
    assert peer_identity(server) == PeerIdentity(caller.uid, role)
    assert peer_identity(client) == PeerIdentity(listener.uid, Role.BROKER)
    require_role(peer_identity(client), Role.BROKER)
    for stream in (server, client):
        assert stream.version() == "TLSv1.3"
        assert stream.cipher()[1] == "TLSv1.3"
        assert stream.selected_alpn_protocol() == ALPN


async def test_over_tcp(issue: Issue) -> None:
    listener, caller = issue("listener"), issue("caller", Role.CLIENT)
    [socket] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with socket:
        port = socket.socket.getsockname()[1]
        theirs = await trio.open_tcp_stream("127.0.0.1", port)
        ours = await socket.accept()
        server: Stream = trio.SSLStream(ours, server_context(listener), server_side=True)
        client: Stream = trio.SSLStream(theirs, client_context(caller))
        assert await exchange(server, client) == (None, None)
        assert peer_identity(server).uid == caller.uid
        assert peer_identity(client).uid == listener.uid
        await trio.aclose_forcefully(server)
        await trio.aclose_forcefully(client)


async def test_no_session_can_be_resumed(issue: Issue) -> None:
    server, client = on_memory(server_context(issue("a")), client_context(issue("b")))
    assert await exchange(server, client) == (None, None)
    assert not client.session.has_ticket


async def test_a_caller_of_a_foreign_authority_is_refused(
    issue: Issue, authority: Authority, foreign: Authority
) -> None:
    stranger = issue("stranger", signer=foreign)
    # A stranger would trust our authority, were it up to him.
    context = client_context(stranger)
    context.load_verify_locations(authority.directory / "authority.crt")
    reason, _ = await refusals(server_context(issue("a")), context)
    assert "CERTIFICATE_VERIFY_FAILED" in reason


async def test_a_listener_of_a_foreign_authority_is_refused(
    issue: Issue, foreign: Authority
) -> None:
    stranger = issue("stranger", signer=foreign)
    _, reason = await refusals(server_context(stranger), client_context(issue("a")))
    assert "CERTIFICATE_VERIFY_FAILED" in reason


async def test_a_caller_without_certificate_is_refused(
    issue: Issue, anonymous: ssl.SSLContext
) -> None:
    reason, _ = await refusals(server_context(issue("a")), anonymous)
    assert "did not return a certificate" in reason


async def test_an_end_without_certificate_is_nobody(
    issue: Issue, anonymous: ssl.SSLContext
) -> None:
    lax = server_context(issue("a"))
    lax.verify_mode = ssl.CERT_OPTIONAL
    server, client = on_memory(lax, anonymous)
    assert await exchange(server, client) == (None, None)
    with pytest.raises(ProtocolError, match="no certificate"):
        peer_identity(server)


async def test_a_client_that_poses_as_a_broker_is_refused(issue: Issue) -> None:
    poser = replace(issue("poser", Role.CLIENT), role=Role.BROKER)
    _, reason = await refusals(server_context(poser), client_context(issue("a")))
    assert "unsuitable certificate purpose" in reason


async def test_expired_certificates_are_refused_at_either_end(
    issue: Issue, expired: Identity
) -> None:
    good = issue("good")
    reason, _ = await refusals(server_context(good), client_context(expired))
    assert "certificate has expired" in reason
    _, reason = await refusals(server_context(expired), client_context(good))
    assert "certificate has expired" in reason


@pytest.mark.parametrize("old_end", ["server", "client"])
async def test_tls_1_2_is_refused_at_either_end(issue: Issue, old_end: str) -> None:
    server, client = server_context(issue("a")), client_context(issue("b"))
    old = server if old_end == "server" else client
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    reasons = await refusals(server, client)
    assert any("protocol" in reason.lower() for reason in reasons)


async def test_another_protocol_within_tls_is_refused(issue: Issue) -> None:
    context = client_context(issue("b"))
    context.set_alpn_protocols(["h2"])
    server, client = on_memory(server_context(issue("a")), context)
    await exchange(server, client)
    with pytest.raises(ProtocolError, match="chordal/1"):
        peer_identity(server)


@pytest.mark.parametrize("build", [server_context, client_context])
def test_the_systems_authorities_are_not_trusted(
    issue: Issue, build: Callable[[Identity], ssl.SSLContext]
) -> None:
    context = build(issue("a"))
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_a_clients_identity_does_not_listen(issue: Issue) -> None:
    with pytest.raises(IdentityError, match="--broker"):
        server_context(issue("client", Role.CLIENT))


def test_files_that_vanish_after_loading(issue: Issue) -> None:
    identity = issue("a")
    identity.key.unlink()
    with pytest.raises(IdentityError, match="chordal identity show"):
        client_context(identity)


def test_a_role_that_is_not_the_wanted_one(issue: Issue) -> None:
    client = issue("client", Role.CLIENT)
    with pytest.raises(ProtocolError, match=f"client {client.uid}"):
        require_role(PeerIdentity(client.uid, client.role), Role.BROKER)
