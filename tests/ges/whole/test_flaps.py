"""Real brokers behind proxies that cut, truncate, stall and reorder: each event once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.campaigns.flaps import LONGEST_SECONDS, Outcome, Plan, run
from benchmarks.stage.flaky import Fault
from benchmarks.stage.forked import Stem


def check(outcome: Outcome) -> None:
    assert (outcome.missed, outcome.doubled, outcome.disordered) == (0, 0, 0)
    assert outcome.total("events_unacknowledged_dropped") == 0
    assert outcome.total("events_lost") == 0
    assert outcome.total("protocol_errors") == 0
    assert max(outcome.longest) < LONGEST_SECONDS


def test_a_stream_of_events_survives_links_that_flap(tmp_path: Path, stem: Stem | None) -> None:
    outcome = run(Plan(seconds=5, rate=400, every=0.3), tmp_path, stem)
    assert len(outcome.harm) == len(Fault), "every kind of harm was done"
    assert outcome.connections > 10, "and links came up anew"
    # What was under way is sent again over the next link, or over others if that is sooner.
    assert outcome.total("events_sent_again") + outcome.total("events_sent_on") > 0
    check(outcome)


def test_without_a_way_round_what_was_under_way_is_sent_again(
    tmp_path: Path, stem: Stem | None
) -> None:
    plan = Plan(brokers=2, seconds=2, rate=1000, every=0.3, faults=(Fault.CUT,))
    outcome = run(plan, tmp_path, stem)
    assert outcome.harm, "links were cut"
    assert outcome.total("events_sent_again") > 0
    check(outcome)


@pytest.mark.soak
@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_a_long_stream_survives_links_and_clients_that_flap(tmp_path: Path, seed: str) -> None:
    plan = Plan(brokers=5, seconds=20, rate=2000, every=0.3, seed=seed, clients=True)
    check(run(plan, tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize("every", [0.3, 1.0])
@pytest.mark.parametrize("brokers", [2, 3, 5])
def test_a_stream_of_events_survives_harm_to_all_links_at_once(
    tmp_path: Path, brokers: int, every: float
) -> None:
    """Then there is no way round, nobody to ask, and calls that have just begun break as well."""
    for name, faults in (
        ("cut", (Fault.CUT,)),
        ("short", (Fault.TRUNCATE,)),
        ("all", tuple(Fault)),
    ):
        plan = Plan(
            brokers=brokers,
            seconds=10,
            rate=500,
            faults=faults,
            every=every,
            everything=True,
            seed=f"{brokers}:{every}",
        )
        folder = tmp_path / name
        folder.mkdir()
        outcome = run(plan, folder)
        assert sum(outcome.harm.values()) > 5
        check(outcome)


@pytest.mark.soak
@pytest.mark.parametrize("brokers", [2, 3, 5])
@pytest.mark.parametrize("everything", [False, True])
def test_a_stream_of_secure_events_survives_links_that_flap(
    tmp_path: Path, brokers: int, everything: bool
) -> None:
    plan = Plan(brokers=brokers, seconds=8, rate=500, everything=everything, secure=True)
    check(run(plan, tmp_path))


@pytest.mark.soak
def test_a_publisher_whose_connection_flaps_loses_and_doubles_nothing(tmp_path: Path) -> None:
    faults = (Fault.CUT, Fault.TRUNCATE, Fault.LATE)
    plan = Plan(seconds=3, rate=1000, every=0.5, faults=faults, everything=True, clients=True)
    check(run(plan, tmp_path))
