"""Brokers that die, stand still or leave while others go on."""

from __future__ import annotations

import json
import signal

import msgspec
import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, whole
from benchmarks.stage.waiting import eventually
from overlay.trace_schema import Incident, Verdict

pytestmark = pytest.mark.live

#: In a ring of six not each is linked to each: repairs and events need those in between.
sizes = pytest.mark.parametrize("n", [6, pytest.param(8, marks=pytest.mark.soak)])


def assert_events_flow(fleet: Fleet, brokers: list[Broker], topic: str) -> None:
    """Publish at each broker; a subscriber at each must get all of it."""
    subscribers = [
        fleet.subscriber(topic, broker.url, "--count", str(len(brokers))) for broker in brokers
    ]
    for broker in brokers:
        published = chordal_here("pub", topic, broker.uid, "--broker", broker.url)
        assert published.returncode == 0, published.stderr
    for subscriber in subscribers:
        assert subscriber.ended() == 0
        assert sorted(subscriber.out.split()[1::2]) == sorted(broker.uid for broker in brokers)


def accused_by(brokers: list[Broker]) -> set[str]:
    """Return of whom these brokers have said that it failed, or its link, or seemed to."""
    lines = [line for broker in brokers for line in broker.incidents()]
    return {msgspec.json.decode(line, type=Incident).subject for line in lines}


@sizes
def test_the_ring_heals_after_kill_9(brokers: Fleet, n: int) -> None:
    ring = brokers.ring_of(n)
    victim = ring[4]
    uid = victim.uid
    victim.signal(signal.SIGKILL)
    survivors = [broker for broker in ring if broker is not victim]
    whole(ring[0].url, n - 1)
    assert_events_flow(brokers, survivors, "after/kill")
    rows = [
        msgspec.json.decode(line, type=Incident)
        for broker in survivors
        for line in broker.incidents()
    ]
    seen = [row for row in rows if row.subject == uid]
    assert len(seen) >= 2  # at least by the two beside it
    for row in seen:
        assert row.verdict is Verdict.BROKER_FAILED
        assert row.confirmed_ns is not None
        assert row.repaired_ns is not None
        assert row.confirmed_ns <= row.repaired_ns
        assert row.messages > 0
    assert {row.subject for row in rows} == {uid}


@sizes
def test_a_stopped_broker_is_left_out_and_finds_its_way_back(brokers: Fleet, n: int) -> None:
    ring = brokers.ring_of(n)
    sleeper = ring[3]
    uid, life = sleeper.uid, sleeper.status()["incarnation"]
    subscriber = brokers.subscriber("news", sleeper.url)
    before = accused_by(ring)  # many that start at once may miss each other for a moment
    sleeper.signal(signal.SIGSTOP)
    whole(ring[0].url, n - 1)
    sleeper.signal(signal.SIGCONT)
    whole(ring[0].url, n)
    status = sleeper.status()
    assert status["uid"] == uid
    assert status["incarnation"] > life
    assert_events_flow(brokers, ring, "after/stop")
    chordal_here("pub", "news", "awake", "--broker", ring[-1].url)
    eventually(lambda: "news awake" in subscriber.out)
    assert accused_by(ring) - before == {uid}


def test_a_check_that_waits_is_not_held_up_by_a_broker_that_stands_still(brokers: Fleet) -> None:
    ring = brokers.ring_of(3)
    ring[1].signal(signal.SIGSTOP)
    waiting = ("--expect", "2", "--wait", "8")  # less than its patience with one broker
    checked = chordal_here("ring", "--check", *waiting, "--broker", ring[0].url)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    ring[1].signal(signal.SIGCONT)


def in_ring_order(ring: list[Broker]) -> list[Broker]:
    """Return the brokers as a walk from the first meets them."""
    walked = json.loads(chordal_here("ring", "--json", "--broker", ring[0].url).stdout)
    by_uid = {broker.uid: broker for broker in ring}
    return [by_uid[row["uid"]] for row in walked["brokers"]]


@pytest.mark.parametrize(
    "frozen",
    [
        [1],
        [2, 3],
        pytest.param([3], marks=pytest.mark.soak),
        pytest.param([5], marks=pytest.mark.soak),
    ],
    ids=str,
)
def test_a_check_at_once_sees_the_ring_close_over_who_stands_still(
    brokers: Fleet, frozen: list[int]
) -> None:
    """As many steps to the right of the broker asked; it need not be told to wait."""
    ring = in_ring_order(brokers.ring_of(6))
    for at in frozen:
        ring[at].signal(signal.SIGSTOP)
    checked = chordal_here(
        "ring", "--check", "--expect", str(6 - len(frozen)), "--broker", ring[0].url
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"the ring of {6 - len(frozen)} is whole" in checked.stdout
    assert "not known" not in checked.stdout
    for broker in ring:
        assert (broker.uid[:8] in checked.stdout) is (broker not in [ring[at] for at in frozen])


def test_one_that_stands_still_and_is_not_found_dead_yet_is_named(brokers: Fleet) -> None:
    """The only other broker of a ring is waited for: for 10 s, between networks far apart."""
    first, second = brokers.ring_of(2, "--profile", "wan")
    second.signal(signal.SIGSTOP)
    named = f"broker {second.uid[:8]} at {second.url} does not answer (no answer in time)"
    checked = chordal_here("ring", "--check", "--expect", "2", "--broker", first.url)
    assert checked.returncode == 1
    (line,) = checked.stderr.splitlines()
    assert line.startswith(f"chordal: error: {named}, and is pointed at by 1 of the 1 met: ")


def test_a_broker_asked_that_stands_still_is_named_in_time(brokers: Fleet) -> None:
    first, _ = brokers.ring_of(2)
    first.signal(signal.SIGSTOP)
    for command in (["ring", "--check"], ["ring"], ["graph"]):
        refused = chordal_here(*command, "--broker", first.url, "--timeout", "1")
        assert (refused.returncode, refused.stdout) == (1, "")
        words = f"no broker to attach to: {first.url}: no answer in time"
        assert refused.stderr.splitlines() == [
            f"chordal: waiting for a broker at {first.url} (no answer yet); trying for 1 s",
            f"chordal: error: {words} [connection-lost]",
        ]


def test_a_subscriber_outlives_its_broker(brokers: Fleet) -> None:
    ring = brokers.ring_of(4)
    subscriber = brokers.subscriber("news/+", ring[2].url)
    ring[2].signal(signal.SIGKILL)
    eventually(lambda: "attached to" in subscriber.err)
    lost, found = subscriber.err.splitlines()[-1].split(", ")[:2]
    assert ring[2].url in lost
    assert any(broker.url in found for broker in ring if broker is not ring[2])
    assert " after 0." in found
    whole(ring[0].url, 3)
    chordal_here("pub", "news/1", "still here", "--broker", ring[0].url)
    eventually(lambda: "news/1 still here" in subscriber.out)


def test_sigterm_is_a_good_bye(brokers: Fleet) -> None:
    ring = brokers.ring_of(4)
    ring[1].signal(signal.SIGTERM)
    assert ring[1].ended() == 0
    whole(ring[0].url, 3)
    for broker in (ring[0], ring[2], ring[3]):
        assert "suspected" not in broker.err
        assert broker.incidents() == []


@pytest.mark.parametrize(  # that SIGTERM ends one, its leaving a ring shows
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)]
)
def test_an_interrupted_broker_ends_in_order(brokers: Fleet, number: signal.Signals) -> None:
    broker = brokers.broker()
    assert broker.ready["ready"]
    broker.signal(number)
    assert broker.ended() == 0


def test_an_interrupted_subscriber_shows_no_traceback(brokers: Fleet) -> None:
    broker = brokers.broker()
    subscriber = brokers.subscriber("#", broker.url)
    subscriber.signal(signal.SIGINT)
    assert subscriber.ended() == 130
    assert "Traceback" not in subscriber.err


def test_without_any_broker_the_client_says_what_it_tried(brokers: Fleet) -> None:
    broker = brokers.broker()
    url = broker.url
    broker.kill()
    refused = chordal_here("pub", "a", "b", "--broker", url, "--timeout", "0.5")
    assert refused.returncode == 1
    assert f"{url}: connection refused" in refused.stderr
    assert "Traceback" not in refused.stderr
