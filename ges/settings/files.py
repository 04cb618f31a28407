"""Reads ``chordal.toml``: each key, with the line that it stands on.

The standard library's parser says nothing of lines. So the text is handed to it statement by
statement as well: a statement ends on the first line with which what has gathered is whole TOML.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from overlay.errors import ConfigError
from overlay.security.regular_file import read_regular

MAX_FILE_BYTES = 64 * 1024

KeyPath = tuple[str, ...]  #: a key with its tables, as in ("limits", "clients")

#: One of these ends the last line of a value of many lines, unless a comment does.
_ENDS = ("]", "}", '"""', "'''")
_AT_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a file."""

    path: KeyPath
    written: object  #: its value, as TOML has it
    line: int


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What one file says."""

    path: Path
    entries: tuple[Entry, ...]

    def place(self, entry: Entry) -> str:
        """Return where it stands, as ``chordal.toml:12``."""
        return f"{self.path}:{entry.line}"


def read_file(path: Path) -> SettingsFile:
    """Read a file of settings; what its keys mean is not looked at yet.

    Raises:
        ConfigError: it cannot be read, is too large, or no TOML; the text names file and line.
    """
    try:
        data, _ = read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        mend = "--config wants a file of settings; 'chordal config show --toml' prints one"
        raise ConfigError(f"{path}: {error.strerror or error}; {mend}") from None
    try:
        text = data.decode("utf-8-sig")
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: no text in UTF-8 ({error.reason})") from None
    except ValueError as error:  # a number of too many digits is no TOMLDecodeError
        raise ConfigError(f"{path}{_in_words(str(error), text)}") from None
    except RecursionError:
        raise ConfigError(f"{path}: lists within lists, too deep to be read") from None
    lines = dict(_lines(text))
    return SettingsFile(
        path, tuple(Entry(at, value, _line(at, lines)) for at, value in _leaves(document))
    )


def _in_words(said: str, text: str) -> str:
    found = _AT_LINE.search(said)
    if found is None:
        return f": {said}"
    line = found[1] or len(text.splitlines())
    return f":{line}: {said[: found.start()]}"


def _leaves(document: dict[str, object], above: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Yield what is no table, and tables that are empty."""
    for key, value in document.items():
        path = (*above, key)
        if isinstance(value, dict) and value:
            yield from _leaves(value, path)
        else:
            yield path, value


def _lines(text: str) -> Iterator[tuple[KeyPath, int]]:
    """Yield the keys and the headers of tables, with their lines."""
    table: KeyPath = ()
    gathered, begun = "", 1
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if not gathered:
            begun = number
        gathered += line
        if begun < number and "#" not in line and not line.rstrip().endswith(_ENDS):
            continue  # to try would be in vain, and take long where there are many lines
        try:
            statement = tomllib.loads(gathered)
        except ValueError:
            continue  # its value goes on
        is_header = gathered.lstrip().startswith("[")
        gathered = ""
        if is_header:
            table = _header(statement)
            yield table, begun
        else:
            yield from (((*table, *path), begun) for path, _ in _leaves(statement))


def _header(statement: dict[str, object]) -> KeyPath:
    """Return the path of the one table in it; of a list of tables, that of the list."""
    path: KeyPath = ()
    held: object = statement
    while isinstance(held, dict) and held:
        [(key, held)] = held.items()
        path = (*path, key)
    return path


def _line(path: KeyPath, lines: dict[KeyPath, int]) -> int:
    """Return the line of a key, or of the table or list that it stands in."""
    while path not in lines and path:
        path = path[:-1]
    return lines.get(path, 1)
