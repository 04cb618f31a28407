"""A run in a few numbers, against numbers worked out by hand."""

from __future__ import annotations

from overlay.trace_schema import Verdict
from sims.scenarios.results import RunResult
from sims.scenarios.summary import Spread, Summary, summarise
from tests.helpers.rows import SECOND, incident, run


def test_times_are_seconds_since_the_crash() -> None:
    incidents = (
        incident(),
        incident(suspected_ns=10 * SECOND + SECOND // 2, messages=10),
        incident(confirmed_ns=18 * SECOND, repaired_ns=20 * SECOND, messages=61),
    )
    assert summarise(RunResult(run(), incidents, 1234)) == Summary(
        crashes=3,
        repaired=3,
        false_suspicions=0,
        detection_s=Spread(1.0, 1.0),
        confirmation_s=Spread(2.0, 8.0),
        repair_s=Spread(3.0, 10.0),
        chord_repair_s=Spread(4.0, 4.0),
        messages=Spread(40, 61),
        events=1234,
        duration_s=60.0,
    )


def test_between_two_the_median_lies_midway() -> None:
    incidents = (incident(repaired_ns=11 * SECOND), incident(repaired_ns=14 * SECOND))
    assert summarise(RunResult(run(), incidents, 1)).repair_s == Spread(2.5, 4.0)


def test_a_time_never_reached_is_longer_than_all_others() -> None:
    never = incident(repaired_ns=None, chords_repaired_ns=None)
    summary = summarise(RunResult(run(), (never, incident()), 1))
    assert (summary.crashes, summary.repaired) == (2, 1)
    assert summary.repair_s == Spread(None, None)
    summary = summarise(RunResult(run(), (never, incident(), incident()), 1))
    assert summary.repair_s == Spread(3.0, None)
    assert summary.detection_s == Spread(1.0, 1.0)


def test_live_brokers_that_were_suspected_are_counted_apart() -> None:
    suspicion = incident(failed_ns=None, confirmed_ns=None, verdict=Verdict.REFUTED, messages=3)
    summary = summarise(RunResult(run(), (suspicion, incident()), 1))
    assert (summary.crashes, summary.false_suspicions) == (1, 1)
    assert summary.messages == Spread(40, 40)


def test_a_run_in_which_nothing_happened() -> None:
    summary = summarise(RunResult(run(), (), 1))
    assert (summary.crashes, summary.repair_s, summary.messages) == (0, None, None)
