"""What a campaign showed, scenario by scenario."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from overlay.quantiles import quantile
from sims.campaign.cells import Shown


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of one scenario. Times are in seconds."""

    scenario: str
    runs: int
    violations: int  #: runs in which a promise did not hold
    errors: int  #: runs that could not be done
    crashes: int
    unrepaired: int  #: of these, crashes that no run saw repaired
    repair_p50_s: float | None  #: of all crashes; None where it is not reached
    repair_p99_s: float | None
    messages: float | None  #: a crash, in the mean
    once: int
    lost: int
    twice: int
    disordered: int


def rows(shown: Iterable[Shown]) -> list[Row]:
    """Return a row for each scenario, in the order in which they come."""
    by_name: dict[str, list[Shown]] = {}
    for each in shown:
        by_name.setdefault(each.scenario, []).append(each)
    return [_row(name, runs) for name, runs in by_name.items()]


def _row(name: str, runs: Sequence[Shown]) -> Row:
    never = [math.inf] * sum(run.crashes - len(run.repair_s) for run in runs)
    times = [*(time for run in runs for time in run.repair_s), *never]
    crashes = sum(run.crashes for run in runs)
    return Row(
        scenario=name,
        runs=len(runs),
        violations=sum(bool(run.broken) for run in runs),
        errors=sum(bool(run.error) for run in runs),
        crashes=crashes,
        unrepaired=len(never),
        repair_p50_s=_quantile(times, 0.5),
        repair_p99_s=_quantile(times, 0.99),
        messages=sum(run.messages for run in runs) / crashes if crashes else None,
        once=sum(run.once for run in runs),
        lost=sum(run.lost for run in runs),
        twice=sum(run.twice for run in runs),
        disordered=sum(run.disordered for run in runs),
    )


def _quantile(times: Sequence[float], share: float) -> float | None:
    found = quantile(times, share)
    return found if math.isfinite(found) else None
