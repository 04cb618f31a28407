"""How far a sweep is, and when it will be done.

Runs of one kind (the same scenario and settings) take a time that grows with their expected work as
a power: seconds = pace * work ** slope. The pace is that of their own kind, as soon as one of it is
done; the slope is what all kinds show of which two sizes are done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from spark.sweep.cells import Cell
from spark.sweep.results import Outcome

SLOPES = (0.7, 2.0)  #: the least and the most that is believed


@dataclass(slots=True)
class Progress:
    """What has become of a sweep's cells so far; ``now`` is in seconds of any clock."""

    total: int
    waiting: float  #: expected work of the cells that have not begun
    slots: int  #: cells at once
    done: int = 0
    failed: int = 0  #: of those done
    running: dict[str, tuple[float, float]] = field(default_factory=dict)  #: since when, work
    left: dict[tuple[str, float], int] = field(default_factory=dict)  #: kind, work: not begun
    _kinds: dict[str, str] = field(default_factory=dict)
    _took: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def plan(self, cells: Sequence[Cell]) -> None:
        """Note which cells there are."""
        for cell in cells:
            key = cell.kind, cell.cost
            self.left[key] = self.left.get(key, 0) + 1

    def begin(self, cell: Cell, now: float) -> None:
        """Note that a cell begins."""
        self.waiting -= cell.cost
        key = cell.kind, cell.cost
        if key in self.left:
            self.left[key] -= 1
        self._kinds[cell.run_id] = cell.kind
        self.running[cell.run_id] = (now, cell.cost)

    def end(self, cell: Cell, outcome: Outcome) -> None:
        """Note what has become of a cell."""
        self.running.pop(cell.run_id, None)
        self.done += 1
        self.failed += not outcome.is_well
        if outcome.error is None:
            self._took.setdefault(cell.kind, []).append((cell.cost, outcome.seconds))

    def left_s(self, now: float) -> float | None:
        """Return the seconds that are left, by what the cells so far took; None: no telling yet.

        The rest is spread over all slots, but cannot end before the longest that runs or waits.
        """
        if not self._took:
            return None
        slope = self._slope()
        paces = {kind: _pace(took, slope) for kind, took in self._took.items()}
        usual = _pace([each for took in self._took.values() for each in took], slope)

        def lasts(kind: str, work: float) -> float:
            return paces.get(kind, usual) * math.pow(work, slope)

        rest = [
            max(0.0, lasts(self._kinds[run], work) - (now - since))
            for run, (since, work) in self.running.items()
        ]
        waiting = [(lasts(kind, work), count) for (kind, work), count in self.left.items() if count]
        if not self.left and self.waiting > 0:
            waiting = [(usual * math.pow(self.waiting, slope), 1)]
        spread = (sum(each * count for each, count in waiting) + sum(rest)) / max(1, self.slots)
        return max([spread, *rest, *(each for each, _ in waiting if self.left)])

    def words(self, now: float) -> str:
        """Say all of it in a line."""
        left = self.left_s(now)
        told = "time left unknown" if left is None else f"{clock(left)} left"
        if left is not None and left < 1 and self.running:
            told = "the last take longer than expected"
        return (
            f"{self.done} of {self.total} done, {len(self.running)} running, "
            f"{self.failed} failed, {told}"
        )

    def _slope(self) -> float:
        """Return how seconds grow with work: least squares over logarithms, kind by kind."""
        above = below = 0.0
        for took in self._took.values():
            logs = [(math.log(work), math.log(max(seconds, 1e-3))) for work, seconds in took]
            middle = [sum(column) / len(logs) for column in zip(*logs, strict=True)]
            above += sum((x - middle[0]) * (y - middle[1]) for x, y in logs)
            below += sum((x - middle[0]) ** 2 for x, _ in logs)
        return min(max(above / below, SLOPES[0]), SLOPES[1]) if below > 0.1 else 1.0


def _pace(took: Sequence[tuple[float, float]], slope: float) -> float:
    return sum(seconds for _, seconds in took) / sum(math.pow(work, slope) for work, _ in took)


def clock(seconds: float) -> str:
    """Return hours, minutes and seconds as ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
