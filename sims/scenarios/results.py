"""The result of a run: its rows; and the listener that hears how far the run is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.ids import Nanos
from overlay.trace_schema import Incident, Run

#: Called with what is under way, how much of it is done (0 to 1), and the virtual clock.
Progress = Callable[[str, float, Nanos], None]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The rows and figures of one run."""

    run: Run
    incidents: tuple[Incident, ...]
    events: int  #: things that happened in the world, as a measure of work
