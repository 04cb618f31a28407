"""The grid of a sweep: which experiments it consists of.

A grid gives each setting of an experiment one value or a list of them; the sweep is their
product. As a file it is TOML::

    nodes = [64, 256, 1024]
    seeds = 20                  # the seeds 1 to 20; a list names them one by one
    crash_share = [0.01, 0.05]
    profile = "lan"

The keys are the fields of ``sims.experiments.experiment.Experiment``, with ``seeds`` for ``seed``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from itertools import product
from pathlib import Path

import msgspec

from overlay.errors import ConfigError
from sims.experiments.experiment import Experiment
from spark.errors import GridError

DEFAULTS: Mapping[str, object] = {"nodes": [64, 256, 1024], "seeds": 5}

KEYS = tuple("seeds" if field.name == "seed" else field.name for field in fields(Experiment))


def read_grid(path: Path) -> dict[str, object]:
    """Return the keys and values of a grid file.

    Raises:
        GridError: It cannot be read, is no TOML, or has a key that no experiment knows.
    """
    try:
        grid = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GridError(f"grid {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise GridError(f"grid {path} is no text in UTF-8, so no TOML") from error
    except tomllib.TOMLDecodeError as error:
        raise GridError(f"grid {path} is no TOML: {error}") from error
    for key in grid:
        if key not in KEYS:
            raise GridError(f"grid {path} has an unknown key {key!r}; known are {', '.join(KEYS)}")
    return grid


def cells(grid: Mapping[str, object]) -> tuple[Experiment, ...]:
    """Return the experiments of ``grid``, over the defaults; the largest rings come first.

    Started in that order, the long ones do not finish alone at the end.

    Raises:
        GridError: A value is of the wrong type, a list is empty, or a setting makes no sense.
    """
    values = {key: _listed(key, value) for key, value in {**DEFAULTS, **grid}.items()}
    combined = (dict(zip(values, chosen, strict=True)) for chosen in product(*values.values()))
    # Overlapping lists name an experiment twice; it runs once.
    unique = dict.fromkeys(_experiment(settings) for settings in combined)
    return tuple(sorted(unique, key=lambda cell: (-cell.nodes, cell.run_id)))


def _listed(key: str, value: object) -> list[object]:
    if key == "seeds" and isinstance(value, int):
        if value < 1:
            raise GridError(f"seeds is {value}; it is the number of seeds, at least 1, or a list")
        value = list(range(1, value + 1))
    if not isinstance(value, list):
        return [value]
    if not value:
        raise GridError(f"the grid's {key} names no value")
    return value


def _experiment(settings: dict[str, object]) -> Experiment:
    values = {"seed" if key == "seeds" else key: value for key, value in settings.items()}
    try:
        return msgspec.convert(values, Experiment)
    except (msgspec.ValidationError, ConfigError) as error:
        raise GridError(f"the grid holds no possible experiment: {error}") from error
