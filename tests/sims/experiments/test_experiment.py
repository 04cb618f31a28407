"""Experiments: reproducible, checked, and honest about what they find."""

from __future__ import annotations

import json
from math import log2
from typing import Any

import pytest

from overlay.errors import ConfigError
from overlay.ids import Nanos
from overlay.trace_schema import Source, Verdict
from ring.coordination.deaths import Deaths
from sims.errors import InvariantViolated
from sims.experiments.experiment import Experiment, RunResult, run
from sims.experiments.summary import summarise
from sims.world.world import CrashMode


def experiment(**changes: Any) -> Experiment:  # noqa: ANN401 - any parameter
    return Experiment(**{"nodes": 16, "seed": 1, "crash_share": 0.25, **changes})


def test_the_same_experiment_gives_the_same_result() -> None:
    assert run(experiment()) == run(experiment())


def test_every_parameter_matters() -> None:
    results = [
        run(experiment(**changes))
        for changes in (
            {},
            {"seed": 2},
            {"nodes": 17},
            {"crash_share": 0.5},
            {"crash_mode": CrashMode.KILL},
            {"profile": "wan"},
        )
    ]
    assert len({result.run.run_id for result in results}) == 6
    times = {tuple((i.subject, i.repaired_ns) for i in result.incidents) for result in results}
    assert len(times) == 6


def test_the_run_row_says_what_was_run() -> None:
    row = run(experiment(profile="local")).run
    assert (row.source, row.scenario, row.nodes, row.seed) == (Source.SIMULATOR, "crash", 16, 1)
    assert (row.profile, row.started_unix_ns) == ("local", None)
    assert json.loads(row.parameters) == {
        "chords": "rank",
        "gap_rule": "widest",
        "crash_mode": "power",
        "crash_share": 0.25,
    }


@pytest.mark.parametrize("mode", CrashMode)
@pytest.mark.parametrize("profile", ["local", "lan", "wan"])
def test_every_crash_is_an_incident_that_heals(mode: CrashMode, profile: str) -> None:
    result = run(experiment(crash_mode=mode, profile=profile))
    assert len(result.incidents) == 4
    assert len({incident.subject for incident in result.incidents}) == 4
    for incident in result.incidents:
        assert incident.verdict is Verdict.BROKER_FAILED
        times = (
            incident.failed_ns,
            incident.suspected_ns,
            incident.confirmed_ns,
            incident.repaired_ns,
        )
        assert None not in times
        assert list(times) == sorted(times, key=lambda time: time or 0)
        assert incident.messages > 0


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_somebody_is_always_left(nodes: int, share: float) -> None:
    summary = summarise(run(experiment(nodes=nodes, crash_share=share)))
    assert summary.crashes == summary.repaired == min(round(share * nodes), nodes - 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scenario": "tea"}, "no scenario 'tea'; there is: crash"),
        ({"nodes": 0}, "nodes is 0"),
        ({"nodes": 10**9}, "nodes is 1000000000"),
        ({"crash_share": -0.1}, "crash share is -0.1"),
        ({"crash_share": 1.0}, "crash share is 1.0"),
        ({"crash_share": float("nan")}, "crash share is nan"),
        ({"profile": "mars"}, "no profile 'mars'; there are local, lan, wan"),
    ],
)
def test_what_makes_no_sense_is_named(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        experiment(**changes)
    assert words in str(caught.value)


def test_progress_goes_through_the_stages_with_the_clock() -> None:
    seen: list[tuple[str, float, Nanos]] = []
    run(experiment(), lambda stage, share, now: seen.append((stage, share, now)))
    assert list(dict.fromkeys(stage for stage, _, _ in seen)) == [
        "forming the ring",
        "coming to rest",
        "crashing brokers",
    ]
    assert all(0 <= share <= 1 for _, share, _ in seen)
    clock = [now for _, _, now in seen]
    assert clock == sorted(clock)


def test_a_ring_that_does_not_heal_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without anybody who suspects, a silent death is never repaired."""
    monkeypatch.setattr(Deaths, "on_silent", lambda self, uid: None)
    with pytest.raises(InvariantViolated) as caught:
        run(experiment())
    text = str(caught.value)
    assert "has not come to rest after the crashes" in text
    assert (
        "see it again in Python with: sims.experiments.run(Experiment(scenario='crash', "
        "nodes=16, seed=1, crash_share=0.25"
    ) in text
    assert "should have" in text


def test_impossible_pointers_are_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sims.verdicts.ledger.local_findings",
        lambda snapshot: [f"wrong at {snapshot.member.ring_id}"],
    )
    with pytest.raises(InvariantViolated, match="a local invariant broke"):
        run(experiment())


@pytest.mark.parametrize(
    ("nodes", "share"), [(96, 0.1), pytest.param(256, 0.05, marks=pytest.mark.soak)]
)
def test_messages_of_an_incident_grow_like_log_n(nodes: int, share: float) -> None:
    """Paper 004, section 3.4.1: the cost is bounded by O(degree(B)), that is O(log n)."""
    small = messages(run(experiment(nodes=32)))
    large = messages(run(experiment(nodes=nodes, crash_share=share)))
    assert large / small < 1.5 * log2(nodes) / log2(32)


def messages(result: RunResult) -> float:
    spread = summarise(result).messages
    assert spread is not None
    assert spread.p50 is not None
    return spread.p50
