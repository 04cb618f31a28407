"""What a campaign runs: every scenario with every seed; and what one such run showed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from overlay.errors import ChordalError, ConfigError
from overlay.ids import NANOS_PER_SECOND
from overlay.release import software_version
from overlay.trace_schema import Fate
from sims.recording import Recording
from sims.scenarios.files import ScenarioFile, parse
from sims.scenarios.inputs import read_inputs
from sims.scenarios.play import Outcome, play, run_id

MAX_SEEDS = 10_000_000
_RANGE = re.compile(r"(-?\d+)-(-?\d+)$")


@dataclass(frozen=True, slots=True)
class Cell:
    """One run that is to be done."""

    given: str  #: the name or path on the command line
    file: ScenarioFile
    changes: tuple[str, ...]
    seed: int
    data: Path | None = None  #: data set that its rows are added to
    made_of: tuple[str, ...] = ()  #: names and digests of the files that the scenario names

    @property
    def key(self) -> str:
        """Names the run by all that decides it.

        Another content of a file is another run, and so is another version of chordal.
        """
        said = "\0".join((self.file.text, *self.changes, *self.made_of, software_version()))
        digest = hashlib.sha256(said.encode()).hexdigest()[:16]
        return f"{self.file.name}-{digest}-{self.seed}"

    @property
    def again(self) -> str:
        """The command that shows the run again."""
        changes = "".join(f" --set {quoted(change)}" for change in self.changes)
        return f"chordal sim run {self.given} --seed {self.seed}{changes}"


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What one run showed, in a line of the journal. Times are in seconds."""

    key: str
    scenario: str
    seed: int
    again: str
    broken: tuple[str, ...] = ()  #: promises that did not hold
    error: str = ""  #: the run could not be done: it is not in the journal, and tried again
    crashes: int = 0
    repair_s: tuple[float, ...] = ()
    messages: int = 0  #: on account of incidents
    once: int = 0  #: events that came once and in order
    lost: int = 0
    twice: int = 0
    disordered: int = 0
    met: dict[str, dict[str, int]] = {}  #: kind of fault -> phase of the protocol -> how often


def quoted(text: str) -> str:
    """Return a word as a shell wants it."""
    return text if re.fullmatch(r"[\w.=:,/+-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def read_seeds(text: str, first: int = 1) -> Sequence[int]:
    """Return the seeds of ``20`` (so many, from ``first`` on), ``3,5`` (these) or ``1-40``.

    Raises:
        ConfigError: it is none of these.
    """
    if found := _RANGE.match(text):
        begin, end = int(found[1]), int(found[2])
        if begin <= end < begin + MAX_SEEDS:
            return range(begin, end + 1)
    elif re.fullmatch(r"\d+", text):
        if 1 <= int(text) <= MAX_SEEDS:
            return range(first, first + int(text))
    elif re.fullmatch(r"-?\d+(,-?\d+)*", text):
        return tuple(dict.fromkeys(map(int, text.split(","))))
    raise ConfigError(
        f"seeds are {text!r}; give how many, as in 20, or which, as in 3,5 or 1-40; at most "
        f"{MAX_SEEDS:,}"
    )


def cells(
    files: Iterable[tuple[str, ScenarioFile]],
    seeds: Sequence[int],
    changes: tuple[str, ...],
    data: Path | None = None,
) -> Iterator[Cell]:
    """Yield all runs, each scenario with the first seed, then each with the second, and so on.

    A campaign that is stopped early has some of each.

    Raises:
        ConfigError: a scenario makes no sense, or a file that it names cannot be read.
    """
    known = [(given, file, _made_of(file, changes)) for given, file in files]
    for seed in seeds:
        for given, file, made_of in known:
            yield Cell(given, file, changes, seed, data, made_of)


def run_cell(cell: Cell) -> Shown:
    """Do one run; what keeps it from being done is part of what it showed."""
    try:
        outcome = _played(cell)
    except (ChordalError, OSError, MemoryError) as error:
        return Shown(
            key=cell.key,
            scenario=cell.file.name,
            seed=cell.seed,
            again=cell.again,
            error=str(error) or "there is not enough memory",
        )
    return _shown(cell, outcome)


def _made_of(file: ScenarioFile, changes: tuple[str, ...]) -> tuple[str, ...]:
    scenario = parse(file, changes)
    return tuple(read_inputs(scenario, file.folder).marked(scenario).values())


def _played(cell: Cell) -> Outcome:
    name, scenario = cell.file.name, parse(cell.file, cell.changes)
    inputs = read_inputs(scenario, cell.file.folder)
    if tuple(inputs.marked(scenario).values()) != cell.made_of:
        raise ConfigError("a file that the scenario names has changed while the campaign runs")
    if cell.data is None:
        return play(name, scenario, cell.seed, inputs=inputs)
    named = run_id(name, scenario, cell.seed, inputs)
    with Recording(cell.data, name, scenario.nodes, named) as recording:
        outcome = play(name, scenario, cell.seed, rows=recording, inputs=inputs)
        recording.finish(outcome.result)
        return outcome


def _shown(cell: Cell, outcome: Outcome) -> Shown:
    crashes = [each for each in outcome.result.incidents if each.failed_ns is not None]
    fates = outcome.verdict.fates if outcome.verdict is not None else {}
    return Shown(
        key=cell.key,
        scenario=cell.file.name,
        seed=cell.seed,
        again=cell.again,
        broken=tuple(outcome.broken),
        crashes=len(crashes),
        repair_s=tuple(
            (each.repaired_ns - each.failed_ns) / NANOS_PER_SECOND
            for each in crashes
            if each.repaired_ns is not None and each.failed_ns is not None
        ),
        messages=sum(each.messages for each in outcome.result.incidents),
        once=fates.get(Fate.ONCE, 0),
        lost=fates.get(Fate.LOST, 0),
        twice=fates.get(Fate.TWICE, 0),
        disordered=fates.get(Fate.DISORDERED, 0),
        met=outcome.met,
    )
