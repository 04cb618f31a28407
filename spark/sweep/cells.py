"""One cell of a sweep: a scenario with its settings and a seed, as it travels to an executor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ring.config import profile
from sims.campaign.cells import Cell as Run
from sims.recording import Recording
from sims.scenarios.faults import late
from sims.scenarios.files import ScenarioFile, parse
from sims.scenarios.forming import config_of, is_quiet
from sims.scenarios.inputs import Inputs, read_inputs
from sims.scenarios.play import play, run_id
from sims.scenarios.schema import Mode, Scenario

_CALM_S = 10  #: virtual seconds, more or less, in which a ring comes to rest
_STRIKING_S = 30  #: in which all faults strike, where the scenario does not say how long it goes on
_QUIET = 0.15  #: of the time that it takes with every heartbeat
_FRAMES = 6.0  #: real time that a whole broker takes, where a ring node takes 1
_EVENT = 3.0  #: and an event at one subscriber


@dataclass(frozen=True, slots=True)
class Cell:
    """What an executor is to run: all travels there, the files that the scenario names too."""

    run: Run
    run_id: str
    nodes: int
    cost: float  #: expected work, in no particular unit
    late: tuple[str, ...]  #: what the scenario plans for a time when the run is over
    beside: tuple[tuple[str, bytes], ...]  #: name and content of files the scenario names

    @property
    def kind(self) -> str:
        """What it has in common with runs that differ in size and seed alone."""
        changes = (change for change in self.run.changes if not change.startswith("nodes="))
        return "\0".join((self.run.given, *changes))

    @property
    def again(self) -> str:
        """The command that shows the run again."""
        return self.run.again


def cells_of(
    given: str, file: ScenarioFile, changes: tuple[str, ...], seeds: Iterable[int]
) -> Iterator[Cell]:
    """Yield the cells of a scenario; ``given`` is its name or path, ``changes`` are ``key=value``.

    Raises:
        ConfigError: The scenario makes no sense with these changes, or names a file that cannot be
            read.
    """
    scenario = parse(file, changes)
    work, inputs = cost(scenario), read_inputs(scenario, file.folder)
    for seed in seeds:
        yield Cell(
            run=Run(given, file, changes, seed),
            run_id=run_id(file.name, scenario, seed, inputs),
            nodes=scenario.nodes,
            cost=work,
            late=tuple(late(scenario)),
            beside=tuple(inputs.files.items()),
        )


def cost(scenario: Scenario) -> float:
    """Return how much work a run is, more or less: messages that are simulated."""
    times = profile(scenario.profile)
    lasting = scenario.seconds or _STRIKING_S
    seconds = 2 * times.chord_refresh_ns / 1e9 + lasting + _CALM_S
    beats = scenario.nodes * seconds * 1e9 / config_of(scenario).heartbeat_ns
    if is_quiet(scenario):
        beats *= _QUIET
    if scenario.mode is Mode.RING:
        return beats
    work = scenario.workload
    readers = (work.subscribers or scenario.nodes) if work else 0
    events = work.publishers * work.rate * lasting * readers if work else 0.0
    return _FRAMES * beats + _EVENT * events


def simulate(cell: Cell, out: Path) -> tuple[str, ...]:
    """Carry out a cell and write its files into the data set ``out``; return broken promises."""
    file = cell.run.file
    scenario = parse(file, cell.run.changes)
    inputs = Inputs(file.folder, dict(cell.beside))
    with Recording(out, file.name, scenario.nodes, cell.run_id) as recording:
        outcome = play(file.name, scenario, cell.run.seed, rows=recording, inputs=inputs)
        recording.finish(outcome.result)
    return tuple(outcome.broken)
