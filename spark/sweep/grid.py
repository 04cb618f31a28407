"""The grid of a sweep: which runs it consists of.

A grid names scenarios, sizes and seeds, and gives any key of the scenarios one value or a list of
them; the sweep is their product. As a file it is TOML::

    scenario = ["crash", "rack.toml"]     # of the library, or a file beside this one
    nodes = [64, 256, 1024]
    seeds = 20                            # the seeds 1 to 20; or a list of them, or "1-20"

    [set]
    profile = ["lan", "wan"]
    "ring.chords" = ["rank", "none"]

A file may instead hold several grids, each a table ``[[grid]]``; the sweep is all of them.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from overlay.errors import ConfigError
from sims.campaign.cells import read_seeds as seeds_in
from sims.scenarios import library
from sims.scenarios.files import ScenarioFile
from spark.errors import GridError
from spark.sweep.cells import Cell, cells_of

DEFAULT_SCENARIO = "crash"
DEFAULT_NODES = (64, 256, 1024)
DEFAULT_SEEDS = 5
MAX_CELLS = 1_000_000
_RESERVED = ("true", "false", "inf", "nan")


class Grid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A product of settings. ``nodes`` left out: the scenario's own size, or the default sizes."""

    scenario: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    seeds: tuple[int, ...] = tuple(range(1, DEFAULT_SEEDS + 1))
    set: dict[str, tuple[Any, ...]] = {}


def read_grids(path: Path) -> tuple[Grid, ...]:
    """Return the grids of a file.

    Raises:
        GridError: It cannot be read, is no TOML, or says what no grid can.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise GridError(f"grid {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise GridError(f"grid {path} is no text in UTF-8, so no TOML") from error
    except (ValueError, RecursionError) as error:  # a number of too many digits is the former
        raise GridError(f"grid {path} is no TOML: {error}") from error
    several = tables.pop("grid", None)
    if several is None:
        several = [tables]
    elif tables or not isinstance(several, list):
        raise GridError(f"grid {path} has tables [[grid]], and then nothing beside them")
    return tuple(_grid(f"grid {path}", table, path.parent) for table in several)


def over(grids: Sequence[Grid], **changes: Any) -> tuple[Grid, ...]:  # noqa: ANN401 - any field
    """Return ``grids`` with what was said on the command line; its settings are added to theirs."""
    given = {key: value for key, value in changes.items() if value}
    added = given.pop("set", {})
    return tuple(
        msgspec.structs.replace(grid, **given, set={**grid.set, **added}) for grid in grids
    )


def read_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of ``20`` (so many), ``3,5`` (these) or ``1-40`` (from and to).

    Raises:
        GridError: It is none of these.
    """
    try:
        seeds = seeds_in(text)
    except ConfigError as error:
        raise GridError(str(error)) from None
    if len(seeds) > MAX_CELLS:
        raise GridError(f"seeds are {text!r}; at most {MAX_CELLS:,} are taken")
    return tuple(seeds)


def read_setting(text: str) -> tuple[str, tuple[Any, ...]]:
    """Return key and values of ``key=v1,v2``; a comma inside brackets or quotes parts nothing.

    Raises:
        GridError: There is no key, or no value.
    """
    key, equals, values = text.partition("=")
    parts = [part.strip() for part in _parts(values)]
    if not key.strip() or not equals or not all(parts):
        raise GridError(f"--set {text!r}: give key=value or key=v1,v2, such as profile=lan,wan")
    return key.strip(), tuple(_value(part) for part in parts)


def cells(grids: Iterable[Grid]) -> tuple[Cell, ...]:
    """Return the cells of all grids, each once, those with the most work first.

    Started in that order, the long ones do not finish alone at the end.

    Raises:
        GridError: A scenario is unknown, or makes no sense with what is set.
    """
    unique: dict[str, Cell] = {}
    for grid in grids:
        for found in _product(grid):
            unique.setdefault(found.run_id, found)
            if len(unique) > MAX_CELLS:
                raise GridError(f"the grid has more than {MAX_CELLS} cells; make it smaller")
    return tuple(sorted(unique.values(), key=lambda each: (-each.cost, each.run_id)))


def _product(grid: Grid) -> Iterator[Cell]:
    nodes = grid.nodes or (() if grid.scenario else DEFAULT_NODES)
    axes = {**({"nodes": nodes} if nodes else {}), **grid.set}
    for given in grid.scenario or (DEFAULT_SCENARIO,):
        file = _find(given)
        for values in product(*axes.values()):
            said = zip(axes, values, strict=True)
            changes = tuple(f"{key}={_toml(value)}" for key, value in said)
            try:
                yield from cells_of(given, file, changes, grid.seeds)
            except ConfigError as error:
                raise GridError(f"the grid holds no possible run: {error}") from error


def _find(given: str) -> ScenarioFile:
    try:
        return library.find(given)
    except ConfigError as error:
        raise GridError(str(error)) from error


def _grid(where: str, table: Any, folder: Path) -> Grid:  # noqa: ANN401 - as TOML has it
    if not isinstance(table, dict):
        raise GridError(f"{where}: [[grid]] must be a table")
    for key in table:
        if key not in Grid.__struct_fields__:
            known = ", ".join(Grid.__struct_fields__)
            raise GridError(
                f"{where} has an unknown key {key!r}; known are {known}; "
                "a key of a scenario belongs under [set]"
            )
    told = {key: _listed(where, key, value) for key, value in table.items() if key != "set"}
    if "seeds" in table and isinstance(table["seeds"], int):
        told["seeds"] = list(_counted(table["seeds"]))
    elif "seeds" in table and isinstance(table["seeds"], str):
        told["seeds"] = list(read_seeds(table["seeds"]))
    settings = table.get("set", {})
    if isinstance(settings, Mapping):
        settings = {key: _listed(where, key, value) for key, value in _flat(settings, "")}
    try:
        grid = msgspec.convert({**told, "set": settings}, Grid)
    except msgspec.ValidationError as error:
        raise GridError(f"{where}: {error}") from error
    return msgspec.structs.replace(
        grid, scenario=tuple(_beside(folder, given) for given in grid.scenario)
    )


def _beside(folder: Path, given: str) -> str:
    return os.path.relpath(folder / given) if given.endswith(".toml") else given


def _flat(table: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    """Yield the keys of nested tables with dots between, as ``[set.ring]`` may write them."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _listed(where: str, key: str, value: Any) -> list[Any]:  # noqa: ANN401 - as TOML has it
    values = value if isinstance(value, list) else [value]
    if not values:
        raise GridError(f"{where}: {key} names no value")
    return values


def _counted(count: int) -> tuple[int, ...]:
    if not 1 <= count <= MAX_CELLS:
        raise GridError(f"seeds is {count}; it is the number of seeds, 1 to {MAX_CELLS}, or a list")
    return tuple(range(1, count + 1))


def _parts(text: str) -> Iterator[str]:
    depth, quote, begin = 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]


def _value(text: str) -> Any:  # noqa: ANN401 - as TOML has it
    """Return a TOML value, or the text if it is none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _toml(value: Any) -> str:  # noqa: ANN401 - as TOML has it
    """Return a value as TOML writes it; a bare word stays one, which reads better in a command."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() if re.fullmatch(r"[a-z][\w.-]*", value) and value not in _RESERVED:
            return value
        case str():
            return json.dumps(value)
        case list():
            return f"[{','.join(_toml_inside(each) for each in value)}]"
    return str(value)


def _toml_inside(value: Any) -> str:  # noqa: ANN401 - as TOML has it
    return json.dumps(value) if isinstance(value, str) else _toml(value)
