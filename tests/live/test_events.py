"""Events through real brokers: each once, in order, at the promised cost."""

from __future__ import annotations

import json
import os
import socket
from collections import defaultdict
from collections.abc import Iterator

import pytest

from benchmarks.stage.forked import Stem
from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, fleet
from benchmarks.stage.waiting import eventually
from overlay.address import parse_url

pytestmark = pytest.mark.live

EVENTS = 200  #: of each publisher


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, stem: Stem | None) -> Iterator[Broker]:
    """One that takes what is right; for commands that are to be refused whatever it does."""
    with fleet(tmp_path_factory.mktemp("fleet"), stem) as found:
        yield found.broker()


def forwarded(fleet: Fleet) -> int:
    """Messages between brokers that carried an event, all brokers together."""
    return sum(broker.status()["counters"].get("events_forwarded", 0) for broker in fleet.brokers)


# In a ring of six not each is linked to each, so that some events take two hops.
@pytest.mark.parametrize("n", [6, pytest.param(8, marks=pytest.mark.soak)])
def test_each_subscriber_gets_each_event_once_and_in_order(brokers: Fleet, n: int) -> None:
    ring = brokers.ring_of(n)
    publishers = (ring[0], ring[3], ring[-1])
    total = EVENTS * len(publishers)
    subscribers = [
        brokers.subscriber("load/#", broker.url, "--count", str(total)) for broker in ring
    ]
    quiet = brokers.subscriber("load/none", ring[1].url)
    assert forwarded(brokers) == 0
    for index, broker in enumerate(publishers):
        lines = "".join(f"{index} {number}\n" for number in range(EVENTS))
        published = chordal_here(
            "pub", "load/x", "-", "--lines", "--broker", broker.url, given=lines
        )
        assert published.returncode == 0, published.stderr
    for subscriber in subscribers:
        assert subscriber.ended() == 0
        seen = defaultdict(list)
        for line in subscriber.out.splitlines():
            _, name, number = line.split()
            seen[name].append(int(number))
        assert seen == {str(n): list(range(EVENTS)) for n in range(len(publishers))}
    assert quiet.out == ""
    counters = [broker.status()["counters"] for broker in ring]  # to tell why, if not
    assert forwarded(brokers) == total * (len(ring) - 1), counters


def test_what_is_published_anywhere_comes_once_a_subscription_is_active(brokers: Fleet) -> None:
    ring = brokers.ring_of(3)
    subscriber = brokers.run(
        *("sub", "calm/#", "--broker", ring[0].url, "--count", str(len(ring)), "--json")
    )
    eventually(lambda: "calm/# is active: all brokers know of it" in subscriber.err)
    for broker in ring:
        assert chordal_here("pub", "calm/sea", broker.url, "--broker", broker.url).returncode == 0
    assert subscriber.ended() == 0
    assert {json.loads(line)["payload"] for line in subscriber.out.splitlines()} == {
        broker.url for broker in ring
    }
    assert subscriber.err.count("is active") == 1


def test_strangers_do_no_harm(brokers: Fleet) -> None:
    ring = brokers.ring_of(3)
    address = parse_url(ring[0].url)
    place = (address.host, address.port)
    garbage = (
        os.urandom(4096),
        b"\x00\x00\x00\x20\x01",
        b"\xff\xff\xff\xff\x01\x00",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"",
    )
    half_open = [socket.create_connection(place) for _ in range(100)]
    for data in garbage * 20:
        with socket.create_connection(place) as stranger:
            stranger.sendall(data)
    subscriber = brokers.subscriber("calm", ring[1].url, "--count", "1")
    assert chordal_here("pub", "calm", "sea", "--broker", ring[0].url).returncode == 0
    assert subscriber.ended() == 0
    for stranger in half_open:
        stranger.close()
    for broker in ring:
        assert "suspected" not in broker.err
    assert ring[0].status()["counters"]["strangers_dropped"] > 0


@pytest.mark.parametrize(
    ("arguments", "named"), [(["pub", "a/#", "x"], "wildcard"), (["sub", "a/#/b"], "'#'")]
)
def test_a_wrong_topic_is_named_before_a_broker_is_looked_for(
    arguments: list[str], named: str
) -> None:
    refused = chordal_here(*arguments, "--broker", "chordal://127.0.0.1:1")
    assert refused.returncode == 2
    assert named in refused.stderr
    assert "127.0.0.1" not in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["pub", "a/+", "x"], "wildcard"),
        (["pub", "", "x"], "topic is empty"),
        (["sub", "a/*"], "'+'"),
        (["sub", "#/a"], "'#'"),
        (["pub", "a", "b", "--attr", "novalue"], "novalue"),
        (["pub", "a", "b", "--class", "golden"], "golden"),
        (["pub", "a", "b", "--broker", "nats://x"], "nats://x"),
        (["ring", "--expect", "3"], "--check"),
    ],
)
def test_a_wrong_word_is_named(broker: Broker, arguments: list[str], named: str) -> None:
    where = [] if "--broker" in arguments else ["--broker", broker.url]
    refused = chordal_here(*arguments, *where)
    assert refused.returncode == 2
    assert named in refused.stderr
    assert "Traceback" not in refused.stderr
