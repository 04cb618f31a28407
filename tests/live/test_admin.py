"""The admin server of real brokers, as a user starts it and reads it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, fleet
from benchmarks.stage.waiting import eventually
from overlay.net.free_ports import free_ports
from tests.helpers.http import Answer, fetch, following
from tests.helpers.web_certificates import WebAuthority

pytestmark = pytest.mark.live

TOKEN = "correct-horse-battery-staple"
#: A killed broker is out of the picture in a fifth of a second; a machine that is busy gets more.
CLOSED_SECONDS = 4.0
IDLE_KB = 60_000  #: as the kernel counts resident memory, in units of 1024 bytes


def admin_url(broker: Broker) -> str:
    """Return where a broker's admin server is, once it has joined."""
    return str(broker.ready["admin_url"])


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    """Four brokers, of which the first has an admin server; no test here ends one."""
    with fleet(tmp_path_factory.mktemp("ring")) as found:
        first = found.broker("--admin", "0")
        others = [found.broker("--join", first.url) for _ in range(3)]
        assert all(broker.uid for broker in others)
        yield [first, *others]


def states(picture: dict[str, Any]) -> dict[str, str]:
    """Return how the brokers of a picture are, by uid."""
    return {broker["uid"]: broker["state"] for broker in picture["brokers"]}


def alive(picture: dict[str, Any]) -> set[str]:
    """Return the uids of those that nobody doubts."""
    return {uid for uid, state in states(picture).items() if state == "alive"}


def test_a_broker_that_has_joined_is_ready_and_tells_of_itself(ring: list[Broker]) -> None:
    first = ring[0]
    url = admin_url(first)
    assert url.startswith("http://127.0.0.1:")
    assert fetch(url, "/healthz").json == {"status": "ok"}
    eventually(lambda: fetch(url, "/readyz").json == {"status": "ok"})
    eventually(lambda: fetch(url, "/api/status").json["links"])
    told = fetch(url, "/api/status").json
    assert told["uid"] == first.uid
    assert told["member"]["ring_id"] == first.ready["ring_id"]
    assert f'chordal_on_ring{{broker="{first.uid}"}} 1' in fetch(url, "/metrics").text

    def members() -> dict[str, str]:
        rows = fetch(url, "/api/units").json["members"]
        return {row["uid"]: row["address"] for row in rows}

    eventually(lambda: members().keys() == {broker.uid for broker in ring})
    assert set(members().values()) == {f"0.0.0.{slot}" for slot in range(4)}


def test_a_broker_that_waits_for_its_ring_lives_and_is_not_ready(brokers: Fleet) -> None:
    seed, port = free_ports(2)
    brokers.broker("--join", f"chordal://127.0.0.1:{seed}", "--admin", f"127.0.0.1:{port}")
    url = f"http://127.0.0.1:{port}"

    def not_on_the_ring() -> Answer | None:
        try:
            answer = fetch(url, "/readyz")
        except OSError:  # it does not listen yet
            return None
        return answer if "not on the ring" in answer.text else None

    answer = eventually(not_on_the_ring)
    assert answer is not None
    assert (answer.status, answer.json["status"]) == (503, "unavailable")
    assert fetch(url, "/healthz").status == 200


def test_the_picture_has_what_only_the_others_know(ring: list[Broker], brokers: Fleet) -> None:
    brokers.subscriber("news", ring[3].url)

    def attached() -> dict[str, Any] | None:
        picture: dict[str, Any] = fetch(admin_url(ring[0]), "/api/ring").json
        clients = [broker["clients"] for broker in picture["brokers"]]
        return picture if len(clients) == 4 and None not in clients else None

    picture = eventually(attached)
    assert picture is not None
    # Who asks is a client of each, and is not counted.
    clients = {broker["uid"]: broker["clients"] for broker in picture["brokers"]}
    assert clients == {broker.uid: int(broker is ring[3]) for broker in ring}
    normal = {(link["a"], link["b"]) for link in picture["links"] if link["class"] == "normal"}
    assert len(normal) == 6  # each to each


def test_events_of_the_whole_overlay_can_be_tailed(ring: list[Broker]) -> None:
    url = admin_url(ring[0])
    with following(url, "/api/events/tail?topic=sensors/%23") as events:
        eventually(lambda: fetch(url, "/api/status").json["subscriptions"] == 1)
        done = chordal_here("pub", "sensors/7", "21.5", "--broker", ring[1].url)
        assert done.returncode == 0, done.stderr
        name, event = next(events)
    assert (name, event["topic"], event["text"]) == ("event", "sensors/7", "21.5")
    assert event["hops"] in (1, 2)  # a path over another broker may cost less


def test_a_broker_that_was_scraped_and_watched_takes_little_memory(ring: list[Broker]) -> None:
    url = admin_url(ring[0])
    for _ in range(20):
        assert fetch(url, "/metrics").status == 200
    for _ in range(3):
        assert fetch(url, "/api/ring").status == 200
    status = Path(f"/proc/{ring[0].process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    assert int(line.split()[1]) < IDLE_KB, line


def test_who_leaves_and_who_dies_is_told_and_the_ring_closes(brokers: Fleet) -> None:
    first = brokers.broker("--admin", "0")
    others = [brokers.broker("--join", first.url) for _ in range(4)]
    uids = {first.uid, *(broker.uid for broker in others)}
    leaver, victim = others[0], others[2]
    with following(admin_url(first), "/api/ring/stream") as events:
        pictures = (picture for name, picture in events if name == "picture")

        def until_gone(uid: str) -> dict[str, Any]:
            gone = (each for each in pictures if states(each).get(uid) in ("dead", "left"))
            return next(gone)

        next(each for each in pictures if alive(each) == uids)
        leaver.signal(signal.SIGTERM)
        assert states(until_gone(leaver.uid))[leaver.uid] == "left"
        next(each for each in pictures if each["is_whole"] and len(alive(each)) == 4)
        victim.signal(signal.SIGKILL)
        killed = time.monotonic()
        picture = until_gone(victim.uid)
        assert time.monotonic() - killed < CLOSED_SECONDS
        assert states(picture)[victim.uid] == "dead"
        assert alive(picture) == uids - {leaver.uid, victim.uid}
        assert all(victim.uid not in (link["a"], link["b"]) for link in picture["links"])
        [incident] = next(each["incidents"] for each in pictures if each["incidents"])
    assert (incident["uid"], incident["verdict"]) == (victim.uid, "broker_failed")
    assert 0 < incident["detected_s"] <= incident["repaired_s"] < CLOSED_SECONDS


def test_where_there_is_a_token_it_is_wanted(brokers: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "admin.token"
    path.touch(0o600)
    path.write_text(TOKEN + "\n")
    broker = brokers.broker("--admin", "0", "--admin-token-file", str(path))
    url = admin_url(broker)
    assert fetch(url, "/api/status").status == 401
    assert fetch(url, "/api/status", Authorization=f"Bearer {TOKEN}").status == 200
    visit = fetch(url, f"/?token={TOKEN}")
    assert visit.status == 303
    cookie = visit.headers["set-cookie"].partition(";")[0]
    assert fetch(url, "/", Cookie=cookie).status == 200
    with following(url, "/api/ring/stream", Cookie=cookie) as pictures:
        next(pictures)
        broker.signal(signal.SIGTERM)  # it leaves though a page is open
        assert broker.ended() == 0
    assert TOKEN not in broker.err + broker.out


def test_it_is_served_over_https(brokers: Fleet, tmp_path: Path) -> None:
    web = WebAuthority(tmp_path / "web")
    folder = tmp_path / "tls"
    folder.mkdir()
    web.issue(folder / "server.crt", folder / "server.key")
    (folder / "client-ca.crt").write_bytes(web.certificate.read_bytes())
    broker = brokers.broker("--admin", "0", "--admin-tls", str(folder))
    url = admin_url(broker)
    assert url.startswith("https://")
    assert fetch(url, "/metrics", context=web.client()).status == 401
    certified = web.client(certified_by=web)
    assert "chordal_on_ring" in fetch(url, "/metrics", context=certified).text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--admin", "0.0.0.0:9471"), "give --admin-token-file FILE"),
        (("--admin", "0", "--admin-token-file", "/nowhere/token"), "make one with"),
        (("--admin", "0", "--admin-tls", "/nowhere"), "--admin-tls wants server.crt"),
        (("--admin", "127.0.0.1:99999"), "is not HOST:PORT"),
        (("--admin", "999999"), "port 999999 is not between 0 and 65535"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(options: tuple[str, ...], words: str) -> None:
    done = chordal_here("serve", "--listen", "0", *options)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("chordal: error: ")
    assert words in line


def test_a_port_that_is_taken_ends_the_broker_with_one_line(ring: list[Broker]) -> None:
    port = admin_url(ring[0]).rpartition(":")[2]
    done = chordal_here("serve", "--listen", "0", "--admin", port, "--log-level", "error")
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        [
            f"chordal: error: --admin 127.0.0.1:{port}: another process listens there; "
            "give another address or port [config]"
        ],
    )
