"""Groups that differ in one setting, compared: by how much, how surely, and how visibly.

Where two groups were run with the same seeds, each replicate draws the same seeds of both
(``replicates``), so their differences are those of pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations

import msgspec
import numpy as np

from spark.analysis.groups import settings
from spark.analysis.quantiles import Counts, Key
from spark.analysis.ranks import Reals, end_of
from spark.analysis.recovery import MESSAGES, KeyedGroup
from spark.analysis.replay import usual
from spark.analysis.replicates import CONFIDENCE, Cell
from spark.analysis.results import Comparison

COMPARED = ("total", MESSAGES)
QUANTILES = ("p50", "p99")
BACKUPS, RECORDS = "ring.backups", "records."
MAX_VALUES = 12  #: of one setting; with more, only the first are compared
_NUMBERS = tuple(
    f"{name}{end}" for name in ("difference", "ratio") for end in ("", "_low", "_high")
)


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two groups that differ in one setting."""

    value_key: int
    base_key: int
    setting: str
    value: str
    base: str


def pairs(groups: Iterable[KeyedGroup]) -> list[Pair]:
    """Return all pairs of groups that differ in one setting, the profile being one too."""
    told = _settings([group for group in groups if group.parameters is not None])
    families: dict[tuple[object, ...], list[tuple[str, int]]] = {}
    for group, own in told:
        for key, value in own.items():
            if key == BACKUPS and not any(other.startswith(RECORDS) for other in own):
                continue  # there is nothing to back up
            others = tuple(sorted((k, v) for k, v in own.items() if k != key))
            family = (group.source, group.scenario, key, others)
            families.setdefault(family, []).append((value, group.group_key))
    found = []
    for (_, _, setting, _), members in families.items():
        ranked = sorted(members, key=lambda member: _order(member[0]))[:MAX_VALUES]
        found += [
            Pair(value_key=key, base_key=base_key, setting=str(setting), value=value, base=base)
            for (base, base_key), (value, key) in combinations(ranked, 2)
        ]
    return found


def _settings(groups: list[KeyedGroup]) -> list[tuple[KeyedGroup, dict[str, str]]]:
    """Return the settings of each group: what one does not say is as usual, if others say it."""
    said: dict[tuple[str, str], set[str]] = {}
    for group in groups:
        said.setdefault((group.source, group.scenario), set()).update(settings(group.parameters))
    told = []
    for group in groups:
        known = usual(group.scenario)
        others = {key: known[key] for key in said[group.source, group.scenario] if key in known}
        own = {**others, **settings(group.parameters), "profile": group.profile}
        told.append((group, own))
    return told


def _order(value: str) -> tuple[float, str]:
    """Sort numbers by size, and texts behind them."""
    try:
        return float(value), value
    except ValueError:
        return float("inf"), value


def compare(
    pairs: Iterable[Pair],
    groups: Mapping[int, KeyedGroup],
    cells: Iterable[Cell],
    counts: Mapping[Key, Counts],
) -> list[Comparison]:
    """Return rows of two cells each that differ in the setting of a pair.

    Args:
        pairs: Which groups to compare.
        groups: All of them, by key.
        cells: Quantiles with their replicates.
        counts: How many values there are in each bucket.
    """
    by_group: dict[tuple[int, str], dict[int, Cell]] = {}
    for cell in cells:
        if cell.measure in COMPARED and cell.size > 0 and cell.count:
            by_group.setdefault((cell.group_key, cell.measure), {})[cell.size] = cell
    found = []
    for pair in pairs:
        for measure in COMPARED:
            values = by_group.get((pair.value_key, measure), {})
            bases = by_group.get((pair.base_key, measure), {})
            for size in sorted(values.keys() & bases.keys()):
                sides = values[size], bases[size]
                effect = _effect(*(counts[c.group_key, c.size, c.measure] for c in sides))
                found += [
                    _compared(pair, groups[pair.value_key], *sides, name, effect)
                    for name in QUANTILES
                ]
    return found


def _compared(
    pair: Pair, group: KeyedGroup, value: Cell, base: Cell, quantile: str, effect: float
) -> Comparison:
    at, base_at = value.at[quantile], base.at[quantile]
    reached = math.isfinite(at) and math.isfinite(base_at)
    draws = value.draws[quantile], base.draws[quantile]
    # Replicates are as many on both sides, or none on one.
    is_drawn = reached and len(draws[0]) == len(draws[1]) > 0
    numbers: dict[str, float | None] = dict.fromkeys(_NUMBERS)
    if reached:
        numbers |= {"difference": at - base_at, "ratio": at / base_at if base_at > 0 else None}
    if is_drawn:
        # Where a replicate of the base is not reached, the value's is shorter by any amount.
        known = np.isfinite(draws[1])
        differences = np.where(known, draws[0] - np.where(known, draws[1], 0), -np.inf)
        numbers |= _ends("difference", differences)
        if base_at > 0 and (draws[1] > 0).all():
            numbers |= _ends("ratio", np.where(known, draws[0] / np.where(known, draws[1], 1), 0.0))
    row = Comparison(
        source=group.source,
        scenario=group.scenario,
        profile=group.profile,
        parameters=group.parameters,
        setting=pair.setting,
        value=pair.value,
        base=pair.base,
        n=value.size,
        measure=value.measure,
        quantile=quantile,
        value_at=at if math.isfinite(at) else None,
        base_at=base_at if math.isfinite(base_at) else None,
        effect=effect,
        words="",
        **numbers,
    )
    return msgspec.structs.replace(row, words=in_words(row, value, base))


def _ends(name: str, draws: Reals) -> dict[str, float | None]:
    ends = {
        f"{name}_{end}": end_of(draws, (1 + side * CONFIDENCE) / 2)
        for end, side in (("low", -1), ("high", 1))
    }
    return {
        key: end if end is not None and math.isfinite(end) else None for key, end in ends.items()
    }


def _effect(value: Counts, base: Counts) -> float:
    """Return Cliff's delta: values in one bucket count as equal.

    An open repair counts as longer than all that are over.
    """
    numbers = sorted({*_ended(value), *_ended(base)})
    mine, theirs = (
        np.array([*(_ended(side).get(at, 0.0) for at in numbers), side.still.sum()])
        for side in (value, base)
    )
    upto = theirs.cumsum()
    won = float(mine @ (upto - theirs - (theirs.sum() - upto)))
    return won / float(mine.sum() * theirs.sum())


def _ended(side: Counts) -> dict[int, float]:
    return {
        number: float(count)
        for number, count in zip(side.numbers, side.over, strict=True)
        if number is not None and count
    }


def in_words(row: Comparison, value_cell: Cell, base_cell: Cell) -> str:
    """Return a sentence: what the setting does, and whether that is sure."""
    what = {"total": "recovery time", MESSAGES: "messages per incident"}[row.measure]
    place = f"{what} ({row.quantile}, n = {row.n:,})"
    value, base = (f"{row.setting} {name}" for name in (row.value, row.base))
    if row.value_at is None or row.base_at is None:
        open_ones = " and ".join(
            f"{cell.open:,} of {cell.open + cell.count:,} with {name}"
            for cell, name in ((value_cell, value), (base_cell, base))
        )
        return (
            f"{value} and {base} are not compared by {place}: it is not reached, as {open_ones} "
            "were not seen repaired"
        )
    if row.ratio is None:
        return f"{value} and {base}: {place} {row.value_at:.3g} and {row.base_at:.3g}"
    if row.ratio_low is None:
        return f"{value} has {row.ratio:.2f} times the {place} of {base}; one seed says no more"
    if row.ratio_high is None:
        return (
            f"{value} and {base} cannot be told apart by {place}: the upper end of the interval "
            "is not reached"
        )
    interval = f"95 % interval {row.ratio_low:.2f} to {row.ratio_high:.2f}"
    if row.ratio_low <= 1 <= row.ratio_high:
        return (
            f"{value} and {base} cannot be told apart by {place}: ratio {row.ratio:.2f}, {interval}"
        )
    more = "more" if row.ratio > 1 else "less"
    return (
        f"{value} has {abs(row.ratio - 1):.0%} {more} {place} than {base} "
        f"(ratio {row.ratio:.2f}, {interval}; {_size(row.effect)} effect)"
    )


def _size(effect: float) -> str:
    """Return Cliff's delta in the usual words (Romano et al., 2006)."""
    for bound, word in ((0.147, "negligible"), (0.33, "small"), (0.474, "medium")):
        if abs(effect) < bound:
            return word
    return "large"
