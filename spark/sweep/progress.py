"""How far a sweep is, and when it will be done."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark.sweep.cells import Cell
from spark.sweep.results import Outcome


@dataclass(slots=True)
class Progress:
    """What has become of a sweep's cells so far; ``now`` is in seconds of any clock."""

    total: int
    waiting: float  #: expected work of the cells that have not begun
    slots: int  #: cells at once
    done: int = 0
    failed: int = 0  #: of those done
    running: dict[str, tuple[float, float]] = field(default_factory=dict)  #: since when, work
    _seconds: float = 0.0
    _work: float = 0.0

    def begin(self, cell: Cell, now: float) -> None:
        """Note that a cell begins."""
        self.waiting -= cell.cost
        self.running[cell.run_id] = (now, cell.cost)

    def end(self, cell: Cell, outcome: Outcome) -> None:
        """Note what has become of a cell."""
        self.running.pop(cell.run_id, None)
        self.done += 1
        self.failed += not outcome.is_well
        if outcome.error is None:
            self._seconds += outcome.seconds
            self._work += cell.cost

    def left_s(self, now: float) -> float | None:
        """Return the seconds that are left, by what the cells so far took; None: no telling yet.

        The rest is spread over all slots, but cannot end before the longest that runs.
        """
        if not self._work:
            return None
        pace = self._seconds / self._work
        rest = [max(0.0, work * pace - (now - since)) for since, work in self.running.values()]
        spread = (max(0.0, self.waiting) * pace + sum(rest)) / max(1, self.slots)
        return max([spread, *rest])

    def words(self, now: float) -> str:
        """Say all of it in a line."""
        left = self.left_s(now)
        parts = [
            f"{self.done} of {self.total} done",
            f"{len(self.running)} running",
            f"{self.failed} failed",
            "time left unknown" if left is None else f"{clock(left)} left",
        ]
        return ", ".join(parts)


def clock(seconds: float) -> str:
    """Return hours, minutes and seconds as ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
