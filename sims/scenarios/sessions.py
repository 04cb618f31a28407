"""Sessions read from a file: who was there from when to when.

::

    uid,start_s,end_s
    a,0,312.5
    b,17.25,
    a,400,1200

A broker that comes again has several lines; one without an end stays.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

from overlay.errors import ConfigError

COLUMNS = ("uid", "start_s", "end_s")
MAX_SESSIONS = 1_000_000
MAX_SECONDS = 1e10


@dataclass(frozen=True, slots=True, order=True)
class Session:
    """One stay of one broker, in seconds since the beginning of the file."""

    start_s: float
    name: str
    end_s: float | None


def read_sessions(path: Path) -> list[Session]:
    """Read a file of sessions; the earliest come first.

    Raises:
        ConfigError: it cannot be read, or a line makes no sense; the text names file and line.
    """
    try:
        return sessions_in(path.read_bytes(), path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None


def sessions_in(content: bytes, path: Path) -> list[Session]:
    """Return the sessions in the content of a file; ``path`` is where it was.

    Raises:
        ConfigError: a line makes no sense; the text names file and line.
    """
    try:
        rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        first = next(rows, [])
        if tuple(first) != COLUMNS:
            raise ConfigError(f"{path}: the first line must be {','.join(COLUMNS)}")
        found = [_session(path, rows.line_num, row) for row in rows if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path} is not a CSV file: {error}") from None
    if not found:
        raise ConfigError(f"{path} has no sessions")
    if len(found) > MAX_SESSIONS:
        raise ConfigError(f"{path} has {len(found)} sessions, {MAX_SESSIONS} are allowed")
    found.sort(key=lambda session: (session.start_s, session.name))
    _check_apart(path, found)
    return found


def _session(path: Path, line: int, row: list[str]) -> Session:
    if len(row) != len(COLUMNS):
        raise ConfigError(f"{path}, line {line}: {len(row)} fields, {len(COLUMNS)} are needed")
    name, start, end = (field.strip() for field in row)
    if not name:
        raise ConfigError(f"{path}, line {line}: the uid is empty")
    begin = _seconds(path, line, "start_s", start)
    until = _seconds(path, line, "end_s", end) if end else None
    if until is not None and until <= begin:
        raise ConfigError(f"{path}, line {line}: it ends at {end}, before it starts at {start}")
    return Session(begin, name, until)


def _seconds(path: Path, line: int, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MAX_SECONDS:
        raise ConfigError(
            f"{path}, line {line}: {column} is {text!r}, must be seconds from 0 to {MAX_SECONDS:g}"
        )
    return value


def _check_apart(path: Path, sessions: list[Session]) -> None:
    """No broker is there twice at one time."""
    until: dict[str, float] = {}
    for session in sessions:
        if session.start_s < until.get(session.name, 0.0):
            raise ConfigError(f"{path}: two sessions of {session.name} overlap")
        until[session.name] = math.inf if session.end_s is None else session.end_s
