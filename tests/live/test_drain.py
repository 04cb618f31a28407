"""Draining real brokers: clients move, no event is lost, the ring closes, they end with 0."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, Running, whole
from benchmarks.stage.waiting import eventually
from tests.helpers.http import fetch

pytestmark = pytest.mark.live

COUNT = 1500


def flowing(
    brokers: Fleet, here: Broker, there: Broker, link_class: str
) -> tuple[Running, Running]:
    """A subscriber at one broker, and a publisher at another, in the midst of its events."""
    subscriber = brokers.subscriber("bench", there.url, "--json", "--count", str(COUNT))
    eventually(lambda: "is active" in subscriber.err)
    publisher = brokers.run(
        *("bench", "pub", "--rate", "1000", "--count", str(COUNT), "--json"),
        *("--class", link_class, "--broker", here.url),
    )
    eventually(lambda: len(subscriber.out.splitlines()) > 100)
    return publisher, subscriber


@pytest.mark.parametrize("link_class", ["normal", pytest.param("express", marks=pytest.mark.soak)])
def test_a_broker_that_drains_loses_no_event_of_its_clients(
    brokers: Fleet, link_class: str
) -> None:
    """But for express ones that pass while a subscriber moves: nobody keeps these."""
    stays, goes = brokers.ring_of(2)
    at = goes if link_class == "normal" else stays
    publisher, subscriber = flowing(brokers, goes, at, link_class)
    done = chordal_here("drain", goes.uid[:8], "--broker", stays.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"broker {goes.uid[:8]} at {goes.url} has left\n"
    assert goes.ended() == 0
    assert publisher.ended() == 0, publisher.err
    assert subscriber.ended() == 0, subscriber.err
    numbers = [json.loads(line)["sequence"] for line in subscriber.out.splitlines()]
    assert numbers == list(range(1, COUNT + 1)), "each once, and in order"
    whole(stays.url, 1)
    assert json.loads(publisher.out)["runs"][0]["figures"]["published"] == COUNT


def test_a_drain_takes_no_new_clients_and_serves_those_that_stay(brokers: Fleet) -> None:
    stays, goes = brokers.ring_of(2, "--admin", "0")
    with_frozen = brokers.subscriber("a", goes.url)
    eventually(lambda: "is active" in with_frozen.err)
    with_frozen.signal(signal.SIGSTOP)
    begun = chordal_here("drain", goes.url, "--no-wait", "--grace", "20s")
    assert begun.stdout == f"broker {goes.uid[:8]} at {goes.url} drains\n"
    refused = chordal_here("status", "--broker", goes.url, "--timeout", "0.5")
    assert refused.returncode == 1
    assert "this broker is leaving" in refused.stderr
    assert goes.process.poll() is None, "it waits for its client"
    unready = fetch(str(goes.ready["admin_url"]), "/readyz")
    assert (unready.status, "the broker drains" in unready.text) == (503, True)
    with_frozen.signal(signal.SIGCONT)
    assert goes.ended() == 0
    eventually(lambda: f"lost {goes.url}, attached to {stays.url}" in with_frozen.err)


def test_sigterm_drains_and_a_second_one_does_not_wait(brokers: Fleet) -> None:
    _, goes = brokers.ring_of(2, "--grace", "50s")
    frozen = brokers.subscriber("a", goes.url)
    frozen.signal(signal.SIGSTOP)
    goes.signal(signal.SIGTERM)
    eventually(lambda: '"draining"' in goes.err)
    assert goes.process.poll() is None
    goes.signal(signal.SIGTERM)
    assert goes.ended() == 0
    assert "client silent" not in goes.err, "it did not wait for that"
    frozen.kill()


def test_who_may_not_drains_nothing(brokers: Fleet, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[allow]]\nsubject = "anyone"\npublish = ["#"]\n')
    broker = brokers.broker("--access", str(rules))
    denied = chordal_here("drain", broker.url)
    assert denied.returncode == 1
    assert "draining the broker is denied to anyone: no rule allows it" in denied.stderr
    unknown = chordal_here("drain", "ffffffffff", "--broker", broker.url)
    assert unknown.returncode == 2
    assert "no brokers of this ring have uids that begin with 'ffffffffff'" in unknown.stderr
    assert broker.process.poll() is None
