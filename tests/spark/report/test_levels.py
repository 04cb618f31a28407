"""The sections on units and on records: there where the data have some, and only there."""

from __future__ import annotations

import msgspec

from spark.analysis.results import Level, Records
from spark.report.headline import advice
from spark.report.outline import to_markdown
from spark.report.pages import outline
from tests.spark.results import SIMULATED, analysis, comparison, keys

LEVEL = Level(
    **keys(SIMULATED),
    n=64,
    level=2,
    failures=12,
    ring_open=0,
    ring_p50_s=1.3,
    ring_p99_s=1.9,
    ring_max_s=2.0,
    units_open=3,
    units_p50_s=1.4,
    units_p99_s=None,
    units_max_s=None,
)
RECORDS = Records(**keys(SIMULATED), n=64, failures=40, costly=10, lost=31)


def written(**more: object) -> str:
    return to_markdown("", outline(msgspec.structs.replace(analysis(), **more), ""))


def test_recovery_by_level_is_a_section() -> None:
    text = written(levels=(LEVEL,))
    assert "## Recovery by level" in text
    row = "| 64 | 2 | the steward of a super-cluster | 12 | 1.3 | 1.9 | 0 | 1.4 | – | – | 3 |"
    assert row in text


def test_records_lost_are_told_with_the_number_of_backups() -> None:
    text = written(records=(RECORDS,))
    assert "## Records lost, by number of backups" in text
    assert "| 64 | as usual | 40 | 10 | 25.0% | 31 |" in text


def test_without_units_and_records_there_is_no_section() -> None:
    text = written()
    assert "Recovery by level" not in text
    assert "Records lost" not in text


def test_no_number_of_backups_is_advised_because_something_is_quicker() -> None:
    row = comparison("total", "p50")
    backups = msgspec.structs.replace(row, setting="ring.backups", value="3", base="1")
    told = msgspec.structs.replace(analysis(), comparisons=(row, backups))
    assert [each.setting for each in advice(told)] == ["chords"]
