"""Brokers listed in a file, which is looked at again and again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import trio

from ges.discovery.targets import FileTarget, Found, parse_list
from overlay.address import Address
from overlay.errors import ConfigError
from overlay.security.regular_file import read_regular

LOOK_SECONDS = 1.0
MAX_BYTES = 1024 * 1024


async def watch(target: FileTarget, tell: Callable[[Found], None]) -> None:
    """Read the file whenever it changes; while it is missing or wrong, the earlier list stands.

    Raises:
        ConfigError: it is there from the beginning, and wrong.
    """
    addresses: tuple[Address, ...] = ()
    seen: object = None
    is_first = True
    while True:
        mark = _mark(target.path)
        if mark != seen or is_first:
            seen = mark
            problem = ""
            try:
                addresses = _read(target)
            except ConfigError as error:
                if is_first and mark is not None:
                    raise
                problem = str(error)
            is_first = False
            tell(Found(addresses, problem))
        await trio.sleep(LOOK_SECONDS)


def _mark(path: Path) -> tuple[int, ...] | None:
    """Return what changes with a file; None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(target: FileTarget) -> tuple[Address, ...]:
    try:
        data, _ = read_regular(target.path, MAX_BYTES)
        return parse_list(data.decode(), str(target.path))
    except OSError as error:
        raise ConfigError(f"{target.path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{target.path}: no text in UTF-8 ({error.reason})") from error
