"""Makes a scenario smaller while it still goes wrong in the same way.

It tries, again and again, to leave out a fault or a churn model, to halve a number (brokers,
seconds, counts, shares), and to go back to what a key is without being said; what still breaks the
same promise is kept. In the end no single step makes it smaller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from overlay.errors import ChordalError, ConfigError
from sims.errors import SimulationError
from sims.scenarios.files import ScenarioFile, parse, tables_of
from sims.scenarios.play import play

#: Of these, less is simpler; of others it may be anything.
_SMALLER = {
    "nodes": 1,
    "seconds": 1,
    "count": 1,
    "publishers": 1,
    "subscribers": 1,
    "rate": 1,
    "topics": 1,
    "size": 0,
    "share": 0,
    "over_s": 0,
    "at_s": 0,
    "loss": 0,
    "slow_share": 0,
    "per_minute": 1,
}
_LISTS = re.compile(r"\[[^\]]*\]")
_NUMBERS = re.compile(r"[0-9a-f]*\d[0-9a-f.]*")

Tables = dict[str, Any]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smaller scenario."""

    text: str  #: of its file
    broken: str  #: the promise that it breaks
    tries: int


def shrink(
    file: ScenarioFile,
    seed: int,
    changes: Iterable[str] = (),
    *,
    limit: int = 300,
    told: Callable[[str], None] = lambda line: None,
) -> Shrunk:
    """Return a smaller scenario that breaks the same promise with the same seed.

    Args:
        file: the scenario.
        seed: with which it goes wrong.
        changes: as of ``--set``, with which it goes wrong.
        limit: tries at most.
        told: a line for each step that made it smaller.

    Raises:
        ConfigError: the scenario makes no sense, or the sim extra is missing.
        SimulationError: nothing goes wrong with that seed.
    """
    dumps = _writer()
    parse(file, changes)
    tables = _moved(tables_of(file, changes), file)
    broken = _broken(file, tables, seed)
    if broken is None:
        raise SimulationError(f"{file.name} breaks no promise with seed {seed}; there is no less")
    kind, tries, smaller = _kind(broken), 0, True
    while smaller and tries < limit:
        smaller = False
        for what, candidate in _candidates(tables):
            if tries >= limit:
                break
            tries += 1
            found = _broken(file, candidate, seed)
            if found is not None and _kind(found) == kind:
                tables, broken, smaller = candidate, found, True
                told(what)
                break
    return Shrunk(dumps(tables), broken, tries)


def _moved(tables: Tables, file: ScenarioFile) -> Tables:
    """Let relative paths be absolute: the smaller file may lie elsewhere."""
    for table, key in (
        (tables.get("network", {}), "matrix"),
        *((churn, "file") for churn in tables.get("churn", ())),
    ):
        if key in table:
            table[key] = str((file.folder / table[key]).resolve())
    return tables


def _broken(file: ScenarioFile, tables: Tables, seed: int) -> str | None:
    """Return the first promise that is broken, or None; a scenario without sense breaks none."""
    try:
        scenario = parse(ScenarioFile(file.name, _writer()(tables), file.folder))
        broken = play(file.name, scenario, seed, file.folder).broken
    except ChordalError:
        return None
    return broken[0] if broken else None


def _writer() -> Callable[[Tables], str]:
    """Return what writes TOML; it is an extra.

    Raises:
        ConfigError: it is missing.
    """
    try:
        import tomli_w
    except ImportError:
        raise ConfigError(
            "making a scenario smaller needs the sim extra; in a checkout: pip install '.[sim]'"
        ) from None
    return tomli_w.dumps


def _kind(broken: str) -> str:
    """Return a sentence without its numbers and names of brokers."""
    return _NUMBERS.sub("#", _LISTS.sub("", broken))


def _candidates(tables: Tables) -> Iterator[tuple[str, Tables]]:
    """Yield what is one step smaller, the largest steps first."""
    for key in ("faults", "churn"):
        for at in range(len(tables.get(key, ()))):
            candidate = deepcopy(tables)
            del candidate[key][at]
            if not candidate[key]:
                del candidate[key]
            yield f"without {key}[{at}]", candidate
    for key in ("network", "workload"):
        if key in tables:
            yield f"without {key}", {name: each for name, each in tables.items() if name != key}
    for path, value in list(_numbers(tables, ())):
        least = _SMALLER[str(path[-1])]
        for less in _less(value, least):
            candidate = deepcopy(tables)
            _set(candidate, path, less)
            yield f"{'.'.join(map(str, path))} = {less}", candidate


def _less(value: float, least: float) -> Iterator[float]:
    if isinstance(value, int):
        if value > least:
            yield max(value // 2, int(least))
        if value // 2 < value - 1 and value - 1 > least:
            yield value - 1
    elif value > least + 0.01:
        yield round(max(value / 2, least), 3)


def _numbers(here: Any, path: Path) -> Iterator[tuple[Path, float]]:  # noqa: ANN401 - as TOML has it
    if isinstance(here, dict):
        for key, value in here.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if key in _SMALLER and is_number:
                yield (*path, key), value
            else:
                yield from _numbers(value, (*path, key))
    elif isinstance(here, list):
        for at, value in enumerate(here):
            yield from _numbers(value, (*path, at))


def _set(tables: Tables, path: Path, value: float) -> None:
    here: Any = tables
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
