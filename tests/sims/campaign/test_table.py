"""The table of a campaign tells of all crashes, also of those that no run saw repaired."""

from __future__ import annotations

from sims.campaign.cells import Shown
from sims.campaign.table import rows


def shown(seed: int, crashes: int, *repair_s: float) -> Shown:
    key = f"crash-{seed}"
    return Shown(
        key=key, scenario="crash", seed=seed, again=key, crashes=crashes, repair_s=repair_s
    )


def test_quantiles_are_interpolated_over_all_crashes() -> None:
    (row,) = rows([shown(1, 2, 1.0, 2.0), shown(2, 1, 4.0)])
    assert (row.crashes, row.unrepaired) == (3, 0)
    assert (row.repair_p50_s, row.repair_p99_s) == (2.0, 3.96)


def test_a_crash_that_was_never_repaired_is_longer_than_all_others() -> None:
    (row,) = rows([shown(1, 30, 0.5)])
    assert (row.unrepaired, row.repair_p50_s, row.repair_p99_s) == (29, None, None)
    (row,) = rows([shown(1, 4, 1.0, 2.0, 3.0)])
    assert (row.unrepaired, row.repair_p50_s, row.repair_p99_s) == (1, 2.5, None)


def test_without_a_crash_there_is_no_time() -> None:
    (row,) = rows([shown(1, 0)])
    assert (row.repair_p50_s, row.messages) == (None, None)
