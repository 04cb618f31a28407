"""What garbage, slow and silent clients do to the admin server, and to its broker: nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.testing

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import connect
from ges.http import connection, server
from ges.http.app import MAX_FOLLOWERS, MAX_TAILS, AdminApp
from ges.http.guesses import AT_ONCE
from ges.http.observer import Observer
from ges.http.settings import AdminSettings
from overlay.errors import ConfigError
from tests.ges.http.admin import admin_of, get

TOKEN = "a-token-of-enough-characters"
GARBAGE = {
    "no HTTP": b"\x00\x01\x02\xff" * 100,
    "a greeting of another protocol": b"SSH-2.0-OpenSSH_9.9\r\n",
    "TLS": bytes.fromhex("16030100f8010000f40303") + bytes(240),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "a path that is no ASCII": b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a header without end": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000,
    "a length that is none": b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a chunk that is none": b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "HTTP/2 that is none": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 64,
    "an upgrade to HTTP/2": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, "
    b"HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: !!!\r\n\r\n",
    "a web socket": b"GET /api/ring/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    "many fields": b"GET /?" + b"&" * 4000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


async def dial(app: AdminApp) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", app.server.port)


async def request(stream: trio.SocketStream, path: str, token: str = "") -> None:
    shown = f"Authorization: Bearer {token}\r\n" if token else ""
    await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{shown}\r\n".encode())


async def is_closed(stream: trio.SocketStream, seconds: float = 5.0) -> bool:
    """Wait for the end of a connection, whatever comes before; less than one may be idle."""
    with trio.move_on_after(seconds):
        try:
            while await stream.receive_some(65536):
                pass
        except trio.BrokenResourceError:
            pass
        return True
    return False


@pytest.fixture
async def broker(brokers: Brokers) -> Broker:
    return await brokers.start()


@pytest.mark.parametrize("sent", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_harms_nobody(
    broker: Broker, sent: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    async with admin_of(broker) as app:
        async with await dial(app) as stream:
            await stream.send_all(sent)
            with trio.move_on_after(0.05):
                await stream.receive_some(65536)
        assert (await get(app, "/healthz")).status == 200
    assert broker.driver.counters["internal_errors"] == 0
    assert "failed" not in capsys.readouterr().out


async def test_requests_are_answered_one_after_the_other(broker: Broker) -> None:
    async with admin_of(broker) as app, await dial(app) as stream:
        for path in ("/healthz", "/nowhere", "/healthz"):  # sent before any is answered
            await request(stream, path)
        got = b""
        with trio.fail_after(10):
            while got.count(b"HTTP/1.1 ") < 3 or not got.endswith(b"}\n"):
                got += await stream.receive_some(65536)
        assert re.findall(rb"HTTP/1.1 (\d+)", got) == [b"200", b"404", b"200"]


async def test_a_body_is_not_read(broker: Broker) -> None:
    async with admin_of(broker) as app, await dial(app) as stream:
        head = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
        await stream.send_all(head.encode() + b"x" * 100)
        got = await stream.receive_some(65536)
        assert b"200" in got
        assert b"connection: close" in got.lower()
        assert await is_closed(stream)


async def test_a_client_that_goes_in_the_middle_harms_nobody(broker: Broker) -> None:
    async with admin_of(broker) as app:
        for path in ("/metrics", "/api/ring", "/api/ring/stream", "/api/events/tail"):
            stream = await dial(app)
            await request(stream, path)
            await stream.aclose()
        assert (await get(app, "/healthz")).status == 200


async def test_a_request_that_does_not_end_is_ended(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.3)

    async def trickle(stream: trio.SocketStream) -> None:
        for letter in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * 1000:
            try:
                await stream.send_all(bytes([letter]))
            except trio.BrokenResourceError:
                return
            await trio.sleep(0.02)

    async with (
        admin_of(broker) as app,
        await dial(app) as silent,
        await dial(app) as slow,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(trickle, slow)
        assert await is_closed(slow)
        assert await is_closed(silent)
        nursery.cancel_scope.cancel()


async def test_when_there_are_too_many_the_oldest_goes(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 4)
    async with admin_of(broker) as app, await dial(app) as follower:
        await request(follower, "/api/ring/stream")
        assert b"200" in await follower.receive_some(65536)  # it was let in to stay
        others = [await dial(app) for _ in range(4)]
        assert await is_closed(others[0])
        assert (await get(app, "/healthz")).status == 200
        assert not await is_closed(follower, 0.5)
        for stream in others:
            await stream.aclose()


async def test_a_client_that_does_not_read_is_cut_off(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SEND_SECONDS", 0.3)
    async with admin_of(broker) as app, await dial(app) as stream:
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 2048)
        for _ in range(400):  # so many answers that the buffers of both ends are full
            try:
                await request(stream, "/metrics")
            except trio.BrokenResourceError:
                break
        assert await is_closed(stream)
        assert (await get(app, "/healthz")).status == 200


async def test_a_page_that_does_not_read_is_cut_off(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "SEND_SECONDS", 0.2)
    monkeypatch.setattr(
        Observer, "newer", lambda observer, version: _at_once((version + 1, b"x" * 100_000))
    )
    async with admin_of(broker) as app, await dial(app) as stream:
        await request(stream, "/api/ring/stream")
        await until(lambda: app.server.connections == 1)
        await until(lambda: app.server.connections == 0)
    assert "failed" not in capsys.readouterr().out


async def _at_once(value: tuple[int, bytes]) -> tuple[int, bytes]:
    await trio.lowlevel.checkpoint()
    return value


async def test_the_server_ends_though_a_client_does_not_read(broker: Broker) -> None:
    with trio.fail_after(10):
        async with admin_of(broker) as app:
            stream = await dial(app)
            async with stream, trio.open_nursery() as nursery:

                async def ask() -> None:
                    while True:
                        await request(stream, "/metrics")

                nursery.start_soon(ask)
                await trio.sleep(0.5)  # the buffers fill up; nothing is judged by this time
                nursery.cancel_scope.cancel()
            started = trio.current_time()
        assert trio.current_time() - started < connection.SEND_SECONDS / 2


@pytest.mark.parametrize(
    ("path", "most"), [("/api/ring/stream", MAX_FOLLOWERS), ("/api/events/tail", MAX_TAILS)]
)
async def test_so_many_follow_and_no_more(broker: Broker, path: str, most: int) -> None:
    async with admin_of(broker) as app:
        streams = [await dial(app) for _ in range(most)]
        for stream in streams:
            await request(stream, path)
            assert b"200" in await stream.receive_some(65536)
        refused = await get(app, path)
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        await streams[0].aclose()
        with trio.fail_after(10):
            while True:  # it takes a moment until the end is seen
                async with await dial(app) as again:
                    await request(again, path)
                    if b"200" in await again.receive_some(65536):
                        break
        for stream in streams:
            await stream.aclose()


async def test_a_fault_in_an_answer_is_counted_and_ends_nothing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    async with admin_of(broker) as app:
        monkeypatch.setattr(broker, "status", broken)
        found = await get(app, "/api/status")
        assert (found.status, broker.driver.counters["internal_errors"]) == (500, 1)
        assert "ZeroDivision" not in found.text
        assert (await get(app, "/healthz")).status == 200


async def test_an_address_that_is_taken_is_named(broker: Broker) -> None:
    async with admin_of(broker) as app:
        second = AdminApp(broker, AdminSettings("127.0.0.1", app.server.port))
        with pytest.raises(ConfigError, match=f"{app.server.port}: another process listens there"):
            await second.server.run()


async def test_every_answer_says_how_a_browser_is_to_treat_it(broker: Broker) -> None:
    async with admin_of(broker) as app:
        for path in ("/", "/page/page.js", "/healthz", "/api/status", "/nowhere"):
            headers = (await get(app, path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "server" not in headers


async def test_no_path_leads_out_of_the_page(broker: Broker) -> None:
    async with admin_of(broker) as app:
        for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page/", "/page", "/app.py"):
            assert (await get(app, path)).status == 404


async def test_head_has_no_body(broker: Broker) -> None:
    async with admin_of(broker) as app:
        found = await get(app, "/healthz", "HEAD")
        assert (found.status, found.body) == (200, b"")


async def test_the_page_names_only_what_there_is(broker: Broker) -> None:
    async with admin_of(broker) as app:
        html = (await get(app, "/")).text
        assert "http://" not in html.replace("http://www.w3.org", "")
        names = set(re.findall(r'(?:src|href)="([^"]+)"', html))
        for name in set(names):
            if name.endswith(".js"):
                script = (await get(app, name)).text
                names |= {f"/page/{each}" for each in re.findall(r'from "\./(.+?)"', script)}
        assert {"/page/page.js", "/page/ring.js", "/page/page.css"} <= names
        for name in names:
            assert (await get(app, name)).status == 200, name


async def test_events_are_tailed_as_they_pass(broker: Broker) -> None:
    async with admin_of(broker) as app, await dial(app) as stream, connect(broker.url) as client:
        await request(stream, "/api/events/tail?topic=sensors/%2B")
        await until(lambda: broker.status().subscriptions == 1)
        await client.publish("other/7", b"x")
        await client.publish("sensors/7", "21.5 °C".encode())
        got = b""
        with trio.fail_after(10):
            while b"event: event" not in got:
                got += await stream.receive_some(65536)
        assert b'"topic":"sensors/7","class":"normal"' in got
        assert '"text":"21.5 °C"'.encode() in got
        assert b"other/7" not in got


async def test_where_there_are_access_rules_events_are_for_those_with_the_token(
    brokers: Brokers, tmp_path: Path
) -> None:
    rules = tmp_path / "access.toml"
    rules.write_text('[[allow]]\nsubject = "anyone"\nsubscribe = ["open/#"]\n')
    broker = await brokers.start(access=rules)
    async with admin_of(broker) as app:
        with trio.fail_after(10):
            found = await get(app, "/api/events/tail?topic=open/%23")
        assert (found.status, "--admin-token-file" in found.text) == (403, True)
    async with admin_of(broker, TOKEN) as app, await dial(app) as stream:
        await request(stream, "/api/events/tail?topic=secret/%23", TOKEN)
        got = b""
        with trio.fail_after(10):
            while not got.endswith(b"0\r\n\r\n"):  # the rules hold all the same
                got += await stream.receive_some(65536)
        assert b"event: refused" in got


async def test_of_many_events_a_few_are_shown(broker: Broker) -> None:
    async with admin_of(broker) as app, await dial(app) as stream, connect(broker.url) as client:
        await request(stream, "/api/events/tail")
        got = b""
        with trio.fail_after(15):
            await until(lambda: broker.status().subscriptions == 1)
            for number in range(500):
                await client.publish("a", b"%d" % number)
            while b"event: skipped" not in got:
                got += await stream.receive_some(65536)
        assert got.count(b"event: event") == 50
        assert broker.status().subscriptions == 0  # until the second is over


@pytest.mark.parametrize("text", ["$name/kitchen", "$ping/%23", "$reply/x", "$share/a/b", "$"])
async def test_what_is_the_systems_is_not_tailed(broker: Broker, text: str) -> None:
    async with admin_of(broker) as app, connect(broker.url) as client:
        found = await get(app, f"/api/events/tail?topic={text}")
        assert (found.status, "the system's" in found.text) == (400, True)
        assert broker.status().subscriptions == 0
        async with client.inbox("kitchen") as inbox:
            await client.publish("lamp", b"on", to="kitchen", confirm=True)
            assert (await anext(inbox)).payload == b"on"


async def test_wrong_tokens_are_counted_and_braked(broker: Broker) -> None:
    async with admin_of(broker, TOKEN) as app:
        codes = [
            (await get(app, "/metrics", authorization=f"Bearer guess-{at}")).status
            for at in range(AT_ONCE + 2)
        ]
        assert codes == [401] * AT_ONCE + [429] * 2
        found = await get(app, "/metrics", authorization=f"Bearer {TOKEN}")
        assert (found.status, "too many wrong tokens" in found.text) == (429, True)
        assert (await get(app, "/healthz")).status == 200
    counters = broker.driver.counters
    assert (counters["admin_tokens_wrong"], counters["admin_tokens_braked"]) == (AT_ONCE, 3)


@pytest.mark.parametrize(
    "cuts",
    [[], [4096], [4095, 8191], [100, 4196, 8190], [8192], range(1, 9000)],
    ids=["one segment", "4096", "8191", "8190", "8192", "byte by byte"],
)
@pytest.mark.parametrize(
    ("size", "code"), [(8192, b"404"), (8193, b"431"), (9000, b"431"), (12_289, b"431")]
)
async def test_headers_are_of_8_kib_at_most_however_they_come(
    broker: Broker, size: int, code: bytes, cuts: Sequence[int]
) -> None:
    head = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX: "
    sent = head + b"x" * (size - len(head) - 4) + b"\r\n\r\n"
    here, there = trio.testing.memory_stream_pair()
    app = AdminApp(broker, AdminSettings("127.0.0.1", 0, None, None))
    http = connection.HttpConnection(there, ("127.0.0.1", 1), app.answer, is_certified=False)
    places = sorted({0, size, *(at for at in cuts if at < size)})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(http.run)
        for start, end in pairwise(places):
            await here.send_all(sent[start:end])
            if len(cuts) < 10 or start % 1000 == 0:
                await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(10):
            assert (await here.receive_some(65536)).startswith(b"HTTP/1.1 " + code)
        nursery.cancel_scope.cancel()


async def test_a_filter_that_is_none_is_refused(broker: Broker) -> None:
    async with admin_of(broker) as app:
        found = await get(app, "/api/events/tail?topic=a/%23/b")
        assert found.status == 400
        assert "#" in found.text
