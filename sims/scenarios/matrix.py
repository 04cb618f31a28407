"""Reads a matrix of latencies between regions.

::

    eu,us,asia
    0.5,40,110
    40,0.5,75
    110,75,0.5
"""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from overlay.errors import ConfigError
from overlay.ids import Nanos, nanos
from sims.world.conditions import Matrix

MAX_REGIONS = 4096


def read_matrix(path: Path) -> Matrix:
    """Read a CSV: the first line names the regions, one line a region has milliseconds to each.

    Raises:
        ConfigError: it cannot be read, is not square, or holds something else.
    """
    try:
        return matrix_in(path.read_bytes(), path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None


def matrix_in(content: bytes, path: Path) -> Matrix:
    """Return the matrix in the content of a file; ``path`` is where it was.

    Raises:
        ConfigError: it is not square, or holds something else.
    """
    try:
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        rows = [[field.strip() for field in row] for row in lines if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path} is not a CSV file: {error}") from None
    names = rows[0] if rows else []
    if not 1 <= len(names) <= MAX_REGIONS or len(set(names)) < len(names):
        raise ConfigError(f"{path}: the first line must name 1 to {MAX_REGIONS} regions, each once")
    if len(rows) != len(names) + 1 or any(len(row) != len(names) for row in rows):
        raise ConfigError(f"{path}: {len(names)} lines of {len(names)} milliseconds must follow")
    return Matrix(names, [[_way(path, text) for text in row] for row in rows[1:]])


def _way(path: Path, text: str) -> Nanos:
    try:
        ms = float(text)
    except ValueError:
        ms = math.nan
    if not 0 <= ms <= 60_000:
        raise ConfigError(f"{path}: {text!r} must be milliseconds, from 0 to 60000")
    return nanos(ms / 1000)
