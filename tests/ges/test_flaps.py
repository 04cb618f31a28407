"""Real brokers behind proxies that cut, truncate, stall and reorder: each event once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.links.flaps import LONGEST_SECONDS, Outcome, Plan, run
from tests.helpers.flaky import Fault


def check(outcome: Outcome) -> None:
    assert (outcome.missed, outcome.doubled, outcome.disordered) == (0, 0, 0)
    assert outcome.total("events_unacknowledged_dropped") == 0
    assert outcome.total("events_lost") == 0
    assert outcome.total("protocol_errors") == 0
    assert max(outcome.longest) < LONGEST_SECONDS


def test_a_stream_of_events_survives_links_that_flap(tmp_path: Path) -> None:
    outcome = run(Plan(seconds=5, rate=1000, every=0.3), tmp_path)
    assert len(outcome.harm) == len(Fault), "every kind of harm was done"
    assert outcome.connections > 10, "and links came up anew"
    assert outcome.total("events_sent_again") > 0
    check(outcome)


@pytest.mark.soak
@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_a_long_stream_survives_links_and_clients_that_flap(tmp_path: Path, seed: str) -> None:
    plan = Plan(brokers=5, seconds=20, rate=2000, every=0.3, seed=seed, clients=True)
    check(run(plan, tmp_path))


@pytest.mark.soak
def test_a_stream_of_events_survives_the_cut_of_all_links_at_once(tmp_path: Path) -> None:
    plan = Plan(seconds=3, rate=1000, every=0.7, faults=(Fault.CUT,), everything=True)
    outcome = run(plan, tmp_path)
    assert outcome.harm[Fault.CUT] > 5
    check(outcome)


@pytest.mark.soak
def test_a_publisher_whose_connection_flaps_loses_and_doubles_nothing(tmp_path: Path) -> None:
    faults = (Fault.CUT, Fault.TRUNCATE, Fault.LATE)
    plan = Plan(seconds=3, rate=1000, every=0.5, faults=faults, everything=True, clients=True)
    check(run(plan, tmp_path))
