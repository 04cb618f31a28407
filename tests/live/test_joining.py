"""Starting brokers: they join by themselves, or say clearly why not."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, whole
from benchmarks.stage.waiting import eventually
from overlay.net.free_ports import free_ports

pytestmark = pytest.mark.live


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A socket of somebody else's, that takes connections."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server


@pytest.mark.parametrize("n", [5, pytest.param(8, marks=pytest.mark.soak)])
def test_brokers_find_their_places_through_one(brokers: Fleet, n: int) -> None:
    ring = brokers.ring_of(n)
    places = {broker.uid: broker.ready["ring_id"] for broker in ring}
    assert len(set(places.values())) == n
    assert ring[0].ready["ring_id"] == 0  # paper 004, section 3.2
    status = ring[3].status()
    assert status["uid"] == ring[3].uid
    assert status["member"]["ring_id"] == places[ring[3].uid]
    roles = {role for link in status["links"] for role in link["roles"]}
    assert {"left", "right", "left-left", "right-right"} <= roles


def test_a_broker_waits_for_its_seed_and_says_so(brokers: Fleet) -> None:
    with listening() as server:
        port = server.getsockname()[1]
    late = brokers.broker("--join", f"chordal://127.0.0.1:{port}")
    eventually(lambda: late.err.count("not joined yet") >= 2)
    assert f'"seeds": {{"chordal://127.0.0.1:{port}": "connection refused"}}' in late.err
    seed = brokers.broker("--listen", f"127.0.0.1:{port}")
    assert seed.ready["ready"]
    assert late.ready["ready"]
    whole(seed.url, 2)


def test_brokers_with_one_list_form_one_ring(brokers: Fleet) -> None:
    ports = free_ports(4)
    everybody = ",".join(f"chordal://127.0.0.1:{port}" for port in ports)

    def start(number: int) -> Broker:
        return brokers.broker("--listen", f"127.0.0.1:{ports[number]}", "--join", everybody)

    first, second, third = (start(number) for number in range(3))
    assert all(broker.ready["ready"] for broker in (first, second, third))
    start(3)
    whole(second.url, 4)
    first.process.kill()
    first.process.wait()
    assert start(0).url == first.url
    whole(second.url, 4)


def test_bootstrap_waits_for_so_many(brokers: Fleet) -> None:
    ports = free_ports(3)
    everybody = ",".join(f"chordal://localhost:{port}" for port in ports)

    def start(number: int) -> Broker:
        return brokers.broker(
            *("--listen", f"127.0.0.1:{ports[number]}", "--join", everybody, "--bootstrap", "3")
        )

    first, second = start(0), start(1)
    eventually(lambda: first.err.count("not joined yet") >= 2)
    eventually(lambda: second.err.count("not joined yet") >= 2)
    assert f'"chordal://localhost:{ports[0]}": "this broker"' in first.err
    assert (first.out, second.out) == ("", "")
    start(2)
    whole(first.url, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--bootstrap", "2"), "--join"),
        (("--bootstrap", "3", "--join", "chordal://127.0.0.1:9"), "names 2"),
        (
            ("--listen", "127.0.0.1:9", "--join", "chordal://127.0.0.1:9", "--bootstrap", "2"),
            "names 1",
        ),
    ],
)
def test_a_bootstrap_that_would_never_end_is_refused(
    arguments: tuple[str, ...], words: str
) -> None:
    refused = chordal_here("serve", *arguments)
    assert refused.returncode == 2
    assert words in refused.stderr


def test_an_address_in_use_is_named() -> None:
    with listening() as server:
        port = server.getsockname()[1]
        refused = chordal_here("serve", "--listen", f"127.0.0.1:{port}")
    assert refused.returncode == 2
    assert f"127.0.0.1:{port}" in refused.stderr
    assert "another process" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_another_overlay_is_refused(brokers: Fleet) -> None:
    broker = brokers.broker("--overlay", "red")
    refused = chordal_here(
        *("serve", "--listen", "127.0.0.1:0", "--overlay", "blue", "--join", broker.url)
    )
    assert refused.returncode == 1
    assert "'red'" in refused.stderr
    assert "'blue'" in refused.stderr
    assert broker.process.poll() is None


def test_a_port_that_speaks_something_else_is_not_a_seed() -> None:
    with listening() as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(4096)

        thread = threading.Thread(target=answer)
        thread.start()
        port = server.getsockname()[1]
        refused = chordal_here(
            *("serve", "--listen", "127.0.0.1:0", "--join", f"chordal://127.0.0.1:{port}")
        )
        thread.join()
    assert refused.returncode == 1
    assert f"chordal://127.0.0.1:{port}" in refused.stderr
    assert "version" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--join", "http://127.0.0.1:1"], "http://127.0.0.1:1"),
        (["--join", "chordal://127.0.0.1:99999"], "99999"),
        (["--join", "chordals://127.0.0.1:1", "--listen", "127.0.0.1:0"], "--identity DIR"),
        (["--advertise", "my host", "--listen", "127.0.0.1:0"], "'my host' cannot be the name"),
        (["--listen", "127.0.0.1:http"], "127.0.0.1:http"),
        (["--listen", "0.0.0.0:0"], "--advertise"),
        (["--identity", "nowhere"], "nowhere"),
        (["--profile", "moon"], "moon"),
        (["--no-such-flag"], "--no-such-flag"),
    ],
)
def test_a_wrong_setting_is_named(arguments: list[str], named: str) -> None:
    refused = chordal_here("serve", *arguments)
    assert refused.returncode == 2
    assert named in refused.stderr
    assert "Traceback" not in refused.stderr


def test_two_brokers_cannot_live_in_one_folder(brokers: Fleet, tmp_path: Path) -> None:
    broker = brokers.broker()
    assert broker.ready["ready"]
    folder = broker.arguments[broker.arguments.index("--data") + 1]
    refused = chordal_here("serve", "--listen", "127.0.0.1:0", "--data", folder)
    assert refused.returncode == 2
    assert folder in refused.stderr


def test_a_broker_whose_uid_another_process_takes_says_so(brokers: Fleet, tmp_path: Path) -> None:
    """As where a machine is copied, its data with it."""
    other = brokers.broker()
    here = ("--join", other.url)
    first = brokers.broker("--data", str(tmp_path / "one"), *here)
    assert first.ready["ready"]
    (tmp_path / "two").mkdir()
    shutil.copy(tmp_path / "one" / "broker.json", tmp_path / "two")
    assert brokers.broker("--data", str(tmp_path / "two"), *here).uid == first.uid
    whole(other.url, 2)
    eventually(lambda: "another process uses this broker's uid" in first.err)
    assert "another process" not in other.err


def test_a_broker_that_comes_back_keeps_its_uid(brokers: Fleet, tmp_path: Path) -> None:
    first, second = brokers.ring_of(2)
    uid, life = second.uid, second.status()["incarnation"]
    second.kill()
    again = brokers.broker("--join", first.url, "--data", second.arguments[4])
    assert again.uid == uid
    assert again.status()["incarnation"] > life
    whole(first.url, 2)


def test_the_ring_is_as_its_brokers_are_told_to_make_it(brokers: Fleet) -> None:
    # In a ring of five, a broker that is told nothing has one more chord.
    ring = brokers.ring_of(5, "--chords", "none", "--gaps", "published", "--backups", "3")
    for broker in ring:
        status = broker.status()
        assert status["chords"] == status["right"][1:], "no chord beyond right-right"
        assert status["backups_wanted"] == 3
    other = brokers.broker("--join", ring[0].url)
    whole(ring[0].url, 6)
    eventually(lambda: len(other.status()["chords"]) > 1)
