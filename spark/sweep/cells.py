"""One cell of a sweep: a scenario with its settings and a seed, as it travels to an executor."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from overlay.errors import ConfigError
from ring.config import profile
from sims.campaign.cells import Cell as Run
from sims.recording import Recording
from sims.scenarios.files import ScenarioFile, parse
from sims.scenarios.forming import config_of
from sims.scenarios.play import play, run_id
from sims.scenarios.schema import Mode, ReplayedSessions, Scenario

_CALM_S = 10  #: virtual seconds, more or less, in which a ring comes to rest
_STRIKING_S = 30  #: in which all faults strike, where the scenario does not say how long it goes on
_FRAMES = 6.0  #: real time that a whole broker takes, where a ring node takes 1
_EVENT = 3.0  #: and an event at one subscriber


@dataclass(frozen=True, slots=True)
class Cell:
    """What an executor is to run: all of it travels there, files beside the scenario too."""

    run: Run
    run_id: str
    nodes: int
    cost: float  #: expected work, in no particular unit
    beside: tuple[tuple[str, bytes], ...]  #: relative path and content of files the scenario names

    @property
    def again(self) -> str:
        """The command that shows the run again."""
        return self.run.again


def cells_of(
    given: str, file: ScenarioFile, changes: tuple[str, ...], seeds: Iterable[int]
) -> Iterator[Cell]:
    """Yield the cells of a scenario; ``given`` is its name or path, ``changes`` are ``key=value``.

    Raises:
        ConfigError: The scenario makes no sense with these changes.
    """
    scenario = parse(file, changes)
    work, beside = cost(scenario), tuple(_beside(scenario, file.folder))
    for seed in seeds:
        yield Cell(
            run=Run(given, file, changes, seed),
            run_id=run_id(file.name, scenario, seed),
            nodes=scenario.nodes,
            cost=work,
            beside=beside,
        )


def cost(scenario: Scenario) -> float:
    """Return how much work a run is, more or less: messages that are simulated."""
    times = profile(scenario.profile)
    lasting = scenario.seconds or _STRIKING_S
    seconds = 2 * times.chord_refresh_ns / 1e9 + lasting + _CALM_S
    beats = scenario.nodes * seconds * 1e9 / config_of(scenario).heartbeat_ns
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
    with (
        _folder(cell) as folder,
        Recording(out, file.name, scenario.nodes, cell.run_id) as recording,
    ):
        outcome = play(file.name, scenario, cell.run.seed, folder, rows=recording)
        recording.finish(outcome.result)
    return tuple(outcome.broken)


def _beside(scenario: Scenario, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files that the scenario names by a path below its own folder."""
    named = [part.file for part in scenario.churn if isinstance(part, ReplayedSessions)]
    if scenario.network.matrix:
        named.append(scenario.network.matrix)
    for name in named:
        try:
            content = (folder / name).read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {folder / name}: {error.strerror}") from error
        if not Path(name).is_absolute() and ".." not in Path(name).parts:
            yield name, content


@contextmanager
def _folder(cell: Cell) -> Iterator[Path]:
    """Return where the scenario's relative paths start; made up where its own folder is away."""
    home = cell.run.file.folder
    if all((home / name).is_file() for name, _ in cell.beside):
        yield home
        return
    with tempfile.TemporaryDirectory(prefix="chordal-cell-") as made:
        for name, content in cell.beside:
            path = Path(made, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield Path(made)
