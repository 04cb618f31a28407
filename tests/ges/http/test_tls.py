"""The admin server over HTTPS, and clients that are let in by a certificate."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import LinkClass, connect
from ges.http import server
from ges.http.settings import admin_settings
from ges.http.tls import CERTIFICATE, CLIENTS, KEY, AdminTls
from overlay.errors import ConfigError
from overlay.security.identity import Role
from tests.ges.conftest import Issue
from tests.ges.http.admin import admin_of, get
from tests.helpers.web_certificates import WebAuthority

TOKEN = "a-token-of-enough-characters"


@pytest.fixture
async def broker(brokers: Brokers) -> Broker:
    return await brokers.start()


@pytest.fixture
def web(tmp_path: Path) -> WebAuthority:
    return WebAuthority(tmp_path / "web")


@pytest.fixture
def folder(tmp_path: Path, web: WebAuthority) -> Path:
    """A server's certificate and key."""
    found = tmp_path / "tls"
    found.mkdir()
    web.issue(found / CERTIFICATE, found / KEY)
    return found


async def test_it_is_read_over_https(broker: Broker, web: WebAuthority, folder: Path) -> None:
    async with admin_of(broker, tls=AdminTls(folder)) as app:
        assert app.server.url.startswith("https://127.0.0.1:")
        found = await get(app, "/api/status", context=web.client())
        assert found.json["uid"] == broker.node.peer.uid


async def test_a_certificate_lets_in_in_the_place_of_a_token(
    broker: Broker, web: WebAuthority, folder: Path
) -> None:
    shutil.copy(web.certificate, folder / CLIENTS)
    async with admin_of(broker, tls=AdminTls(folder)) as app:
        refused = await get(app, "/api/status", context=web.client())
        assert (refused.status, "client-ca.crt" in refused.text) == (401, True)
        assert (await get(app, "/healthz", context=web.client())).status == 200
        certified = web.client(certified_by=web)
        assert (await get(app, "/api/status", context=certified)).status == 200
        # A browser shows its certificate whoever has sent it, so the rest is looked at as well.
        other_name = await get(app, "/api/status", context=certified, Host="evil.example")
        assert other_name.status == 421
        elsewhere = await get(app, "/api/status", context=certified, Sec_Fetch_Site="cross-site")
        assert elsewhere.status == 403


async def test_with_both_either_will_do(broker: Broker, web: WebAuthority, folder: Path) -> None:
    shutil.copy(web.certificate, folder / CLIENTS)
    async with admin_of(broker, TOKEN, AdminTls(folder)) as app:
        assert (await get(app, "/metrics", context=web.client())).status == 401
        shown = await get(app, "/metrics", context=web.client(), Authorization=f"Bearer {TOKEN}")
        assert shown.status == 200
        certified = web.client(certified_by=web)
        assert (await get(app, "/metrics", context=certified)).status == 200


async def test_a_foreign_certificate_lets_nobody_in(
    broker: Broker, web: WebAuthority, folder: Path, tmp_path: Path
) -> None:
    shutil.copy(web.certificate, folder / CLIENTS)
    foreign = WebAuthority(tmp_path / "foreign", "foreign")
    async with admin_of(broker, tls=AdminTls(folder)) as app:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await get(app, "/healthz", context=web.client(certified_by=foreign))
        assert (await get(app, "/healthz", context=web.client())).status == 200


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\xff" * 300])
async def test_what_is_no_tls_is_closed(
    broker: Broker, web: WebAuthority, folder: Path, sent: bytes
) -> None:
    async with admin_of(broker, tls=AdminTls(folder)) as app:
        async with await trio.open_tcp_stream("127.0.0.1", app.server.port) as stream:
            await stream.send_all(sent)
            await until_closed(stream)
        assert (await get(app, "/healthz", context=web.client())).status == 200


async def until_closed(stream: trio.SocketStream) -> None:
    with trio.fail_after(4):
        try:
            while await stream.receive_some(4096):
                pass
        except trio.BrokenResourceError:
            pass


async def test_a_handshake_that_does_not_end_is_ended(
    broker: Broker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 0.2)
    async with (
        admin_of(broker, tls=AdminTls(folder)) as app,
        await trio.open_tcp_stream("127.0.0.1", app.server.port) as stream,
    ):
        await stream.send_all(bytes.fromhex("1603010200010001fc0303"))
        await until_closed(stream)


async def test_a_renewed_certificate_is_shown_from_then_on(
    broker: Broker, web: WebAuthority, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with admin_of(broker, tls=AdminTls(folder)) as app:
        before = await serial(app.server.port, web)
        renewed = web.issue(folder / "new.crt", folder / "new.key")
        (folder / "new.key").replace(folder / KEY)  # the other file does not fit it yet
        assert await serial(app.server.port, web) == before
        assert "certificates not read again" in capsys.readouterr().out
        (folder / "new.crt").replace(folder / CERTIFICATE)
        assert await serial(app.server.port, web) == renewed


async def serial(port: int, web: WebAuthority) -> int:
    """Return the serial number of the certificate that a server shows."""
    stream = await trio.open_ssl_over_tcp_stream(
        "127.0.0.1", port, ssl_context=web.client(), https_compatible=True
    )
    async with stream:
        await stream.do_handshake()
        return int(stream.getpeercert()["serialNumber"], 16)


# Settings


def test_certificates_guard_what_others_can_reach(folder: Path, web: WebAuthority) -> None:
    with pytest.raises(ConfigError, match=r"--admin-tls DIR with client-ca.crt"):
        admin_settings("0.0.0.0:9471", None, folder)  # anybody could call it
    shutil.copy(web.certificate, folder / CLIENTS)
    assert admin_settings("0.0.0.0:9471", None, folder).tls is not None


def test_a_missing_file_is_told_with_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file.*wants server.crt and server.key there"):
        AdminTls(tmp_path)


def test_a_file_that_is_wrong_is_told(folder: Path) -> None:
    (folder / CERTIFICATE).write_text("no certificate")
    with pytest.raises(ConfigError, match=f"{folder}: .*--admin-tls wants"):
        AdminTls(folder)


def test_a_key_that_others_can_read_is_not_taken(folder: Path) -> None:
    (folder / KEY).chmod(0o640)
    with pytest.raises(ConfigError, match=f"chmod 600 {folder / KEY}"):
        AdminTls(folder)


def test_an_encrypted_key_is_not_asked_for(folder: Path) -> None:
    from cryptography.hazmat.primitives import serialization as pem

    key = pem.load_pem_private_key((folder / KEY).read_bytes(), None)
    (folder / KEY).write_bytes(
        key.private_bytes(
            pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.BestAvailableEncryption(b"secret")
        )
    )
    with pytest.raises(ConfigError, match=r"server\.key is encrypted"):
        AdminTls(folder)


async def test_secure_events_are_tailed_over_https_and_with_a_guard_alone(
    brokers: Brokers, web: WebAuthority, folder: Path, issue: Issue
) -> None:
    broker = await brokers.start(identity=issue(Role.BROKER))
    assert broker.secure_url is not None
    mine = issue(Role.CLIENT)
    async with connect(broker.secure_url, identity=mine) as client:
        for tls, token, is_shown in (
            (None, None, False),
            (None, TOKEN, False),
            (AdminTls(folder), None, False),
            (AdminTls(folder), TOKEN, True),
        ):
            async with admin_of(broker, token, tls) as app:
                stream: trio.abc.Stream = await trio.open_tcp_stream("127.0.0.1", app.server.port)
                if tls is not None:
                    stream = trio.SSLStream(stream, web.client(), server_hostname="127.0.0.1")
                shown = f"Authorization: Bearer {token}\r\n" if token else ""
                asked = f"GET /api/events/tail HTTP/1.1\r\nHost: localhost\r\n{shown}\r\n"
                await stream.send_all(asked.encode())
                await until(lambda: broker.status().subscriptions == 1)
                await client.publish("t", b"hidden", link_class=LinkClass.SECURE, confirm=True)
                await client.publish("t", b"open", confirm=True)
                got = b""
                with trio.fail_after(10):
                    while b"open" not in got:
                        got += await stream.receive_some(65536)
                assert (b"hidden" in got) == is_shown
                await trio.aclose_forcefully(stream)
            await until(lambda: broker.status().subscriptions == 0)
