"""The scenario ``crash``: every death is an incident that heals, at the cost that is promised."""

from __future__ import annotations

from math import log2

import pytest

from overlay.ids import Nanos
from overlay.trace_schema import Verdict
from ring.coordination.deaths import Deaths
from sims.scenarios import library
from sims.scenarios.files import parse
from sims.scenarios.play import Outcome, play
from sims.scenarios.results import Progress
from sims.scenarios.summary import summarise
from sims.world.world import CrashMode


def crashes(*changes: str, nodes: int = 16, progress: Progress | None = None) -> Outcome:
    share = "faults.0.share=0.25"
    scenario = parse(library.find("crash"), [f"nodes={nodes}", share, *changes])
    return play("crash", scenario, 1, progress=progress)


@pytest.mark.parametrize("mode", CrashMode)
@pytest.mark.parametrize("profile", ["local", "lan", "wan"])
def test_every_crash_is_an_incident_that_heals(mode: CrashMode, profile: str) -> None:
    incidents = crashes(f"faults.0.mode={mode}", f"profile={profile}").result.incidents
    assert len({incident.subject for incident in incidents}) == len(incidents) == 4
    for incident in incidents:
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


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_somebody_is_always_left(nodes: int, share: float) -> None:
    outcome = crashes(f"faults.0.share={share}", nodes=nodes)
    summary = summarise(outcome.result)
    assert summary.crashes == summary.repaired == min(round(share * nodes), nodes - 1)


def test_progress_goes_through_the_stages_with_the_clock() -> None:
    seen: list[tuple[str, float, Nanos]] = []
    crashes(progress=lambda stage, share, now: seen.append((stage, share, now)))
    stages = list(dict.fromkeys(stage for stage, _, _ in seen))
    assert stages == ["forming the ring", "coming to rest", "playing"]
    assert all(0 <= share <= 1 for _, share, _ in seen)
    clock = [now for _, _, now in seen]
    assert clock == sorted(clock)


def test_a_ring_that_does_not_heal_breaks_its_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without anybody who suspects, a silent death is never repaired."""
    monkeypatch.setattr(Deaths, "on_silent", lambda self, uid: None)
    broken = crashes("promises.whole_within_s=30").broken
    assert any("30 s after the last fault the ring is not repaired around" in s for s in broken)
    assert any("should have" in sentence for sentence in broken)


def test_impossible_pointers_break_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sims.verdicts.ledger.local_findings",
        lambda snapshot: [f"wrong at {snapshot.member.ring_id}"],
    )
    assert any("wrong at" in sentence for sentence in crashes().broken)


@pytest.mark.parametrize(
    ("nodes", "share"), [(96, 0.1), pytest.param(256, 0.05, marks=pytest.mark.soak)]
)
def test_messages_of_an_incident_grow_like_log_n(nodes: int, share: float) -> None:
    """Paper 004, section 3.4.1: the cost is bounded by O(degree(B)), that is O(log n)."""
    small = messages(crashes(nodes=32))
    large = messages(crashes(f"faults.0.share={share}", nodes=nodes))
    assert large / small < 1.5 * log2(nodes) / log2(32)


def messages(outcome: Outcome) -> float:
    spread = summarise(outcome.result).messages
    assert spread is not None
    assert spread.p50 is not None
    return spread.p50
