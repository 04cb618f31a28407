"""Scenarios with units and with records: what there is, and what a death concerns."""

from __future__ import annotations

from pathlib import Path

import pytest

from ges.units.unit_names import UnitNames
from sims.scenarios.estates import Estates
from sims.scenarios.files import ScenarioFile, parse
from sims.scenarios.forming import conditions_of, config_of
from sims.scenarios.inputs import Inputs
from sims.scenarios.play import Outcome, play, run_id
from sims.scenarios.ring_stage import RingStage
from sims.scenarios.schema import Records, Units
from sims.scenarios.whole_stage import WholeStage
from sims.world.world import CrashMode

WHOLE = 'about = "x"\nmode = "whole"\nseconds = 5\n'
CRASHES = '[[faults]]\nkind = "crash"\ncount = 3\nover_s = 3\n'


def scenario_of(text: str, *changes: str) -> ScenarioFile:
    return ScenarioFile("mine", text, Path())


def played(text: str, *changes: str, seed: int = 1) -> Outcome:
    return play("mine", parse(scenario_of(text), changes), seed)


def stage_of(nodes: int, units: Units) -> WholeStage:
    scenario = parse(scenario_of(WHOLE))
    latency = conditions_of(scenario, 1, Inputs(Path(), {}))
    stage = WholeStage(1, config_of(scenario), latency, secure=False, units=units)
    stage.begin(nodes)
    stage.rest_units()
    return stage


def cluster_of(stage: WholeStage, uid: str) -> tuple[int, ...]:
    return stage.brokers[uid].node.units.cluster or ()


def names_of(stage: WholeStage, uid: str) -> UnitNames:
    return stage.brokers[uid].node.units.names


def test_units_of_so_many_levels_are_there_at_once_and_stay() -> None:
    stage = stage_of(8, Units(limit=4, levels=2))
    clusters = {uid: cluster_of(stage, uid) for uid in stage.alive}
    assert {cluster[0] for cluster in clusters.values()} == {0}
    assert {cluster[1] for cluster in clusters.values()} == {0, 1}
    assert len(set(clusters.values())) == 4
    stage.run(40)  # longer than it takes until small units are folded
    assert {uid: cluster_of(stage, uid) for uid in stage.alive} == clusters
    assert stage.unit_findings() == []


def test_brokers_are_dealt_out_over_named_units_and_newcomers_as_well() -> None:
    stage = stage_of(6, Units(limit=8, named=("eu/fra/a", "us", "eu/lon/a")))
    named = [("eu", "fra", "a"), ("eu", "lon", "a"), ("us",)]
    assert [names_of(stage, uid) for uid in stage.in_order] == [n for n in named for _ in range(2)]
    uid = stage.start(stage.alive[:1])
    stage.run(20)
    assert names_of(stage, uid) == ("eu", "fra", "a")
    stage.crash(uid, CrashMode.KILL)
    stage.run(5)
    stage.restart(uid, stage.alive[:1])
    stage.run(20)
    assert names_of(stage, uid) == ("eu", "fra", "a"), "it comes back where it was"


@pytest.mark.parametrize("units", ["limit = 4\nlevels = 2", 'limit = 4\nnamed = ["a/b", "c"]'])
def test_each_death_says_which_level_it_concerns_and_when_units_are_in_order(units: str) -> None:
    outcome = played(f"{WHOLE}nodes = 8\n[units]\n{units}\n{CRASHES}", seed=1)
    assert outcome.broken == []
    deaths = [each for each in outcome.result.incidents if each.failed_ns is not None]
    assert len(deaths) == 3
    for death in deaths:
        assert death.level is not None
        assert death.failed_ns is not None
        assert death.units_repaired_ns is not None
        assert death.failed_ns < death.units_repaired_ns < death.failed_ns + 30e9
    assert max(death.level or 0 for death in deaths) > 1, "a steward is among them"


@pytest.mark.soak
def test_units_form_by_joins() -> None:
    outcome = played(
        f'{WHOLE}nodes = 9\n[ring]\nforming = "joins"\n[units]\nlimit = 4\n{CRASHES}', seed=2
    )
    assert outcome.broken == []
    assert {death.level is None for death in outcome.result.incidents} == {False}


def test_without_units_no_level_is_told() -> None:
    outcome = played(f"{WHOLE}nodes = 5\n{CRASHES}")
    assert {each.level for each in outcome.result.incidents} == {None}


def test_what_is_asked_for_is_in_the_name_of_the_run() -> None:
    text = f"{WHOLE}nodes = 8\n"
    one, other, third = (
        run_id("mine", parse(scenario_of(text), changes), 1)
        for changes in ((), ("units.limit=4",), ("records.each=3",))
    )
    assert len({one, other, third}) == 3


# ── records ───────────────────────────────────────────────────────────────────────────────────


ARC = (
    'about = "x"\nnodes = 24\nseconds = 20\n[records]\neach = 4\n'
    '[[faults]]\nkind = "arc"\ncount = 3\n[promises]\nrecords_lost = 0\n'
)


def test_with_too_few_copies_records_are_lost_and_with_enough_none_is() -> None:
    (few,) = played(ARC, "ring.backups=1").broken
    assert "records were lost, 0 allowed" in few
    assert played(ARC, "ring.backups=4").broken == []


def test_each_death_says_how_many_records_were_lost_by_it() -> None:
    few, many = (
        [each.records_lost for each in played(ARC, f"ring.backups={backups}").result.incidents]
        for backups in (1, 4)
    )
    assert sum(lost or 0 for lost in few) > 0
    assert many == [0, 0, 0]
    none = ARC.replace("[records]\neach = 4\n", "").replace("records_lost = 0", "")
    assert {each.records_lost for each in played(none).result.incidents} == {None}


@pytest.mark.parametrize("quiet", ["true", "false"])
def test_a_newcomer_owns_records_and_quiet_runs_say_the_same(quiet: str) -> None:
    text = (
        ARC.replace('kind = "arc"', 'kind = "crash"')
        + '[[churn]]\nkind = "flash-crowd"\ncount = 4\n'
    )
    outcome = played(text, "ring.backups=2", f"quiet={quiet}")
    assert outcome.broken == []


def test_whole_brokers_own_records_as_well() -> None:
    outcome = played(
        f"{WHOLE}nodes = 6\n[records]\neach = 2\n[promises]\nrecords_lost = 0\n{CRASHES}"
    )
    assert outcome.broken == []


def test_each_broker_owns_its_records_once() -> None:
    scenario = parse(scenario_of('about = "x"'))
    stage = RingStage(1, config_of(scenario), conditions_of(scenario, 1, Inputs(Path(), {})))
    estates = Estates(stage, Records(each=3, size=16), 1)
    stage.begin(6)
    stage.timeline.run(10**9)
    estates.begin()
    stage.timeline.run(3 * 10**9)
    owned = {uid: stage.nodes[uid].records for uid in stage.alive}
    assert {len(records) for records in owned.values()} == {3}
    assert {len(body) for records in owned.values() for body in records.values()} == {16}
    assert estates.lost == []
