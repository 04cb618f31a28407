"""Clients of MQTT as others have written them, at real brokers: mosquitto, paho and gmqtt."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from gmqtt import Client as GmqttClient
from gmqtt import Message, Subscription
from gmqtt.mqtt.constants import MQTTv50, MQTTv311
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from benchmarks.stage.forked import Stem
from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, fleet
from benchmarks.stage.waiting import eventually, until
from ges.client import connect
from tests.helpers.web_certificates import WebAuthority

pytestmark = pytest.mark.live

DEADLINE_SECONDS = 20
needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto_pub") is None or shutil.which("mosquitto_sub") is None,
    reason="mosquitto_pub and mosquitto_sub are not installed (package mosquitto-clients)",
)
BOTH = pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])


def properties_of(message: paho.MQTTMessage) -> dict[str, Any]:
    """Return what a message of MQTT 5 has beside its payload."""
    assert message.properties is not None
    return dict(message.properties.json())  # type: ignore[no-untyped-call]


def port_of(broker: Broker) -> int:
    """Return where a broker serves MQTT clients."""
    port = urlsplit(str(broker.ready["mqtt_url"])).port
    assert port is not None
    return port


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory, stem: Stem | None) -> Iterator[list[Broker]]:
    """Two brokers that serve MQTT clients; no test here ends one."""
    with fleet(tmp_path_factory.mktemp("ring"), stem) as found:
        yield found.ring_of(2, "--mqtt", "0")


# ── mosquitto ─────────────────────────────────────────────────────────────────────────────────


def mosquitto_pub(port: int, *arguments: str, given: str | None = None) -> str:
    """Publish, and return what it says."""
    done = subprocess.run(
        ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(port), *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@contextmanager
def mosquitto_sub(folder: Path, port: int, *arguments: str) -> Iterator[Path]:
    """Subscribe for the length of the block; the file has what comes, a line each."""
    out, err = folder / "sub.out", folder / "sub.err"
    with out.open("w") as to, err.open("w") as said:
        command = ["stdbuf", "-oL", "mosquitto_sub", "-h", "127.0.0.1", "-p", str(port), "-d"]
        running = subprocess.Popen([*command, *arguments], stdout=to, stderr=said)
    try:
        eventually(lambda: "SUBACK" in out.read_text() + err.read_text())
        yield out
    finally:
        running.kill()
        running.wait()


def lines_of(out: Path) -> list[str]:
    """Return what came, without what mosquitto_sub says of itself."""
    return [
        line
        for line in out.read_text().splitlines()
        if not line.startswith(("Client ", "Subscribed"))
    ]


@needs_mosquitto
@pytest.mark.parametrize("version", ["mqttv311", "5"])
def test_mosquitto_pub_reaches_a_trio_subscriber_through_two_brokers_and_back(
    ring: list[Broker], tmp_path: Path, version: str
) -> None:
    first, second = ring

    async def there_and_back(out: Path) -> list[tuple[str, bytes]]:
        got = []
        with trio.fail_after(DEADLINE_SECONDS):
            async with connect(second.url) as client, client.subscribe("there/+") as events:
                await events.active.wait()
                for qos in ("0", "1"):
                    arguments = ("-V", version, "-q", qos, "-t", f"there/{qos}", "-m", "hello")
                    await trio.to_thread.run_sync(mosquitto_pub, port_of(first), *arguments)
                    event = await anext(events)
                    got.append((event.topic, event.payload))
                    await client.publish(f"back/{qos}", event.payload + b" again", confirm=True)
                await until(lambda: len(lines_of(out)) >= 2, DEADLINE_SECONDS)
        return got

    arguments = ("-V", version, "-q", "1", "-t", "back/#", "-v")
    with mosquitto_sub(tmp_path, port_of(first), *arguments) as out:
        assert trio.run(there_and_back, out) == [("there/0", b"hello"), ("there/1", b"hello")]
        assert lines_of(out) == ["back/0 hello again", "back/1 hello again"]


@needs_mosquitto
def test_mosquitto_with_properties_retained_and_many_lines(
    ring: list[Broker], tmp_path: Path
) -> None:
    first, second = ring
    more = ("-D", "publish", "user-property", "unit", "C", "-D", "publish", "content-type", "t/csv")
    mosquitto_pub(port_of(first), "-V", "5", "-q", "1", "-r", "-t", "kept/1", "-m", "21", *more)
    arguments = ("-V", "5", "-t", "kept/#", "-F", "%t %p %r %C %P")
    with mosquitto_sub(tmp_path, port_of(second), *arguments) as out:
        eventually(lambda: lines_of(out) == ["kept/1 21 1 t/csv unit:C"])
    with mosquitto_sub(tmp_path, port_of(second), "-t", "many", "-q", "1") as out:
        lines = "".join(f"{number}\n" for number in range(500))
        mosquitto_pub(port_of(first), "-q", "1", "-t", "many", "-l", given=lines)
        eventually(lambda: len(lines_of(out)) >= 500)
        assert lines_of(out) == [str(number) for number in range(500)]


@needs_mosquitto
def test_mosquitto_over_tls_with_a_token(brokers: Fleet, tmp_path: Path) -> None:
    folder = tmp_path / "web"
    authority = WebAuthority(folder)
    authority.issue(folder / "server.crt", folder / "server.key")
    book, token = tmp_path / "tokens.json", tmp_path / "line-1.token"
    issued = chordal_here("token", "issue", str(book), "line-1", "--out", str(token))
    assert issued.returncode == 0, issued.stderr
    rules = tmp_path / "access.toml"
    rules.write_text(
        '[[allow]]\nsubject = "token:line-1"\npublish = ["line-1/#"]\nsubscribe = ["#"]\n'
    )
    door = ("--mqtt", "0", "--mqtt-tls", str(folder))
    broker = brokers.broker(*door, "--tokens", str(book), "--access", str(rules))
    assert str(broker.ready["mqtt_url"]).startswith("mqtts://127.0.0.1:")
    secret = token.read_text().strip()
    who = ("--cafile", str(authority.certificate), "-u", "line-1", "-P", secret, "-V", "5")
    with mosquitto_sub(tmp_path, port_of(broker), *who, "-t", "line-1/#") as out:
        mosquitto_pub(port_of(broker), *who, "-q", "1", "-t", "line-1/7", "-m", "21")
        eventually(lambda: lines_of(out) == ["21"])
        denied = mosquitto_pub(port_of(broker), *who, "-q", "1", "-t", "line-2/7", "-m", "21", "-d")
        assert "publishing to 'line-2/7' is denied to token:line-1" in denied
        assert secret not in broker.err


# ── paho ──────────────────────────────────────────────────────────────────────────────────────


class Paho:
    """A client that remembers what came."""

    def __init__(self, port: int, version: int, client_id: str = "", **more: Any) -> None:  # noqa: ANN401
        self.got: list[paho.MQTTMessage] = []
        self.codes: dict[int | None, list[ReasonCode]] = {}
        self.lost = threading.Event()
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=MQTTProtocolVersion(version),
            reconnect_on_failure=False,
        )
        self.client.on_message = lambda _c, _u, message: self.got.append(message)
        self.client.on_subscribe = self._on_codes
        self.client.on_disconnect = lambda *_: self.lost.set()
        if "will" in more:
            self.client.will_set(*more.pop("will"))
        self.client.connect("127.0.0.1", port, **more)
        self.client.loop_start()
        eventually(self.client.is_connected)

    def _on_codes(self, *about: Any) -> None:  # noqa: ANN401
        self.codes[about[2]] = about[3]

    def subscribe(self, *about: Any, **more: Any) -> list[int]:  # noqa: ANN401
        """Subscribe, and return the answer."""
        _, mid = self.client.subscribe(*about, **more)
        eventually(lambda: mid in self.codes)
        return [code.value for code in self.codes[mid]]

    def publish(self, topic: str, payload: bytes = b"", **more: Any) -> None:  # noqa: ANN401
        """Publish, and wait until that is done."""
        self.client.publish(topic, payload, **more).wait_for_publish(DEADLINE_SECONDS)

    def __enter__(self) -> Paho:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@BOTH
def test_paho_publishes_and_subscribes(ring: list[Broker], version: int) -> None:
    first, second = map(port_of, ring)
    with Paho(first, version, f"source-{version}") as source, Paho(second, version) as sink:
        topic = f"paho/{version}"
        assert sink.subscribe([(f"{topic}/+", 1), (f"{topic}/never", 0)]) == [1, 0]
        for number in range(100):
            source.publish(f"{topic}/{number % 3}", b"%d" % number, qos=number % 2)
        eventually(lambda: len(sink.got) >= 100)
        assert [int(message.payload) for message in sink.got] == list(range(100))
        assert [message.qos for message in sink.got] == [number % 2 for number in range(100)]
        source.publish(f"{topic}/kept", b"last", qos=1, retain=True)
        eventually(lambda: len(sink.got) == 101)
        assert not sink.got[-1].retain
        with Paho(second, version) as later:
            later.subscribe(f"{topic}/#", qos=1)
            eventually(lambda: [(m.payload, m.retain) for m in later.got] == [(b"last", True)])


@BOTH
def test_a_will_of_paho_when_its_process_is_gone(ring: list[Broker], version: int) -> None:
    first, second = map(port_of, ring)
    with Paho(second, version) as watcher:
        watcher.subscribe(f"wills/{version}", qos=1)
        with Paho(first, version, will=(f"wills/{version}", b"gone", 1, False)) as mortal:
            sock = mortal.client.socket()
            assert sock is not None
            sock.close()
            eventually(lambda: [message.payload for message in watcher.got] == [b"gone"])


def test_paho_with_properties_and_shared_subscriptions(ring: list[Broker]) -> None:
    first, second = map(port_of, ring)
    sent = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    sent.UserProperty = [("unit", "C")]
    sent.ContentType = "text/csv"
    sent.ResponseTopic = "answers"
    sent.CorrelationData = b"\x00\x01"
    sent.MessageExpiryInterval = 60
    with (
        Paho(first, paho.MQTTv5) as source,
        Paho(first, paho.MQTTv5) as one,
        Paho(second, paho.MQTTv5) as two,
    ):
        one.subscribe("properties", options=SubscribeOptions(qos=1, retainAsPublished=True))
        source.publish("properties", b"x", qos=1, retain=True, properties=sent)
        eventually(lambda: len(one.got) == 1)
        assert one.got[0].retain
        came = properties_of(one.got[0])
        assert came["UserProperty"] == [("unit", "C")]
        assert (came["ContentType"], came["ResponseTopic"]) == ("text/csv", "answers")
        assert came["CorrelationData"] == "0001"
        assert 58 <= came["MessageExpiryInterval"] <= 60
        one.got.clear()
        for worker in (one, two):
            assert worker.subscribe("$share/workers/jobs/+", qos=1) == [1]
        for number in range(60):
            source.publish(f"jobs/{number}", b"%d" % number, qos=1)
        eventually(lambda: len(one.got) + len(two.got) >= 60)
        done = sorted(int(message.payload) for message in one.got + two.got)
        assert done == list(range(60))


def test_paho_is_told_that_its_broker_leaves(brokers: Fleet) -> None:
    broker = brokers.broker("--mqtt", "0")
    with Paho(port_of(broker), paho.MQTTv5) as client:
        broker.signal(signal.SIGTERM)
        assert client.lost.wait(DEADLINE_SECONDS)
    assert broker.ended() == 0


# ── gmqtt ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", [MQTTv311, MQTTv50])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_gmqtt_publishes_and_subscribes(ring: list[Broker], version: int) -> None:
    first, second = map(port_of, ring)
    topic = f"gmqtt/{version}"

    async def play() -> list[tuple[str, bytes, int]]:
        got: list[tuple[str, bytes, int]] = []
        active, done = asyncio.Event(), asyncio.Event()

        def on_message(_: object, topic: str, payload: bytes, qos: int, more: object) -> int:
            got.append((topic, payload, qos))
            if len(got) == 20:
                done.set()
            return 0

        sink, source = GmqttClient(f"sink-{version}"), GmqttClient(f"source-{version}")
        sink.on_message = on_message
        sink.on_subscribe = lambda *_: active.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await sink.connect("127.0.0.1", second, version=version)
            await source.connect("127.0.0.1", first, version=version)
            sink.subscribe([Subscription(f"{topic}/#", qos=1)])
            await active.wait()
            for number in range(20):
                source.publish(Message(f"{topic}/{number}", b"%d" % number, qos=number % 2))
            await done.wait()
            await source.disconnect()
            await sink.disconnect()
        return got

    got = asyncio.run(play())
    assert got == [(f"{topic}/{number}", b"%d" % number, number % 2) for number in range(20)]


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_gmqtt_says_puback_alone_for_a_minute_and_misses_nothing(ring: list[Broker]) -> None:
    first, second = map(port_of, ring)

    async def play() -> tuple[list[int], int]:
        got: list[int] = []
        ends: list[object] = []
        active = asyncio.Event()

        def on_message(_: object, topic: str, payload: bytes, qos: int, more: object) -> int:
            got.append(int(payload))
            return 0

        sink = GmqttClient("minute")
        sink.on_message = on_message
        sink.on_subscribe = lambda *_: active.set()
        sink.on_disconnect = lambda *about: ends.append(about)
        await sink.connect("127.0.0.1", second, keepalive=60)
        sink.subscribe([Subscription("minute/#", qos=1)])
        await active.wait()
        with Paho(first, paho.MQTTv5) as source:
            for number in range(60):
                source.publish("minute/1", b"%d" % number, qos=1)
                await asyncio.sleep(1)
        found = list(got), len(ends)
        await sink.disconnect()
        return found

    assert asyncio.run(play()) == (list(range(60)), 0)


# ── commands ──────────────────────────────────────────────────────────────────────────────────


def test_commands_and_mqtt_clients_see_the_same(ring: list[Broker]) -> None:
    first, second = ring
    with Paho(port_of(second), paho.MQTTv5) as client:
        client.subscribe("shown/#", qos=1)
        done = chordal_here(
            *("pub", "shown/1", "21", "--retain", "--ttl", "60s", "--attr", "unit=C"),
            *("--broker", first.url),
        )
        assert done.returncode == 0, done.stderr
        eventually(lambda: [message.payload for message in client.got] == [b"21"])
        assert properties_of(client.got[0])["UserProperty"] == [("unit", "C")]
        why = chordal_here("why", "shown/1", "--broker", first.url)
        assert " has 'shown/#'" in why.stdout
        listed = chordal_here("clients", "--json", "--broker", second.url)
        assert json.loads(listed.stdout)["clients"], listed.stdout + listed.stderr
    done = chordal_here("sub", "shown/#", "--json", "--count", "1", "--broker", second.url)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert (row["payload"], row["retained"]) == ("21", True)


def test_serve_says_what_is_wrong_with_the_door(brokers: Fleet, tmp_path: Path) -> None:
    for arguments, told in {
        ("--mqtt", "nowhere:port"): "nowhere:port",
        ("--mqtt", "0", "--mqtt-tls", str(tmp_path)): "--mqtt-tls wants server.crt",
    }.items():
        done = chordal_here("serve", "--check", *arguments)
        assert done.returncode
        assert told in done.stdout + done.stderr
    first = brokers.broker("--mqtt", "0")
    second = brokers.broker("--mqtt", f"127.0.0.1:{port_of(first)}")
    assert second.ended() == 2
    assert '"event": "joined"' not in second.err
    (line,) = [line for line in second.err.splitlines() if "error:" in line]
    assert "another process listens there; give another address or port" in line
