"""Recovery by level, and what deaths cost in records: planted rows come out as they went in."""

from __future__ import annotations

import math

import pytest

from overlay.quantiles import quantile_with_open
from spark.analysis.analysis import Analysis
from spark.analysis.comparison import pairs
from spark.analysis.recovery import KeyedGroup
from tests.spark.rows import S
from tests.spark.study import RANK, SIZES, Study


@pytest.mark.spark
@pytest.mark.parametrize("n", SIZES)
def test_each_level_has_its_own_times(found: Analysis, study: Study, n: int) -> None:
    deaths = [(run, i) for run, i in study.of(RANK, n) if i.failed_ns is not None]
    told = {row.level: row for row in found.levels if (row.parameters, row.n) == (RANK, n)}
    assert told.keys() == {1, 2, 4}
    for level, row in told.items():
        mine = [(run, i) for run, i in deaths if i.level == level]
        assert row.failures == len(mine)
        assert row.ring_open == sum(i.repaired_ns is None for _, i in mine)
        assert row.units_open == sum(i.units_repaired_ns is None for _, i in mine)
        for what, ends in (
            ((row.ring_p50_s, row.ring_p99_s), [(run, i, i.repaired_ns) for run, i in mine]),
            (
                (row.units_p50_s, row.units_p99_s),
                [(run, i, i.units_repaired_ns) for run, i in mine],
            ),
        ):
            over = [(end - (i.failed_ns or 0)) / S for _, i, end in ends if end is not None]
            still = [
                ((run.duration_ns or 0) - (i.failed_ns or 0)) / S
                for run, i, end in ends
                if end is None
            ]
            expected = [quantile_with_open(over, still, share) for share in (0.5, 0.99)]
            shown = [math.inf if value is None else value for value in what]
            assert shown == pytest.approx(expected, rel=0.01)


@pytest.mark.spark
@pytest.mark.parametrize("n", SIZES)
def test_records_that_deaths_cost_are_counted(found: Analysis, study: Study, n: int) -> None:
    lost = [i.records_lost for _, i in study.of(RANK, n) if i.records_lost is not None]
    (row,) = (row for row in found.records if (row.parameters, row.n) == (RANK, n))
    assert (row.failures, row.lost) == (len(lost), sum(lost))
    assert row.costly == sum(each > 0 for each in lost)


@pytest.mark.spark
def test_groups_without_units_are_in_neither_table(found: Analysis) -> None:
    assert {row.parameters for row in (*found.levels, *found.records)} == {RANK}


def test_numbers_of_backups_are_compared_only_where_there_are_records() -> None:
    def keyed(key: int, parameters: str) -> KeyedGroup:
        told = {"source": "simulator", "scenario": "crash", "profile": "lan"}
        return KeyedGroup(group_key=key, parameters=parameters, **told)

    bare = [keyed(1, '{"ring.backups":1}'), keyed(2, '{"ring.backups":4}')]
    assert pairs(bare) == []
    owned = [
        keyed(3, '{"records.each":3,"ring.backups":1}'),
        keyed(4, '{"records.each":3,"ring.backups":4}'),
    ]
    (pair,) = pairs([*bare, *owned])
    assert (pair.setting, pair.value_key, pair.base_key) == ("ring.backups", 4, 3)
