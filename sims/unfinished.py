"""Files that are written under a name that readers pass over, until they are whole. It does I/O.

The names are random: processes on two machines that share a file system may have the same id, and
two attempts at one run the same process.
"""

from __future__ import annotations

import os
import re
import secrets
from glob import escape
from pathlib import Path

_TOKEN = re.compile(r"[0-9a-f]+$")


def unfinished_name(name: str) -> str:
    """Return a name for a file that is to be called ``name`` when it is whole."""
    return f".{name}.{secrets.token_hex(8)}"


def is_left_of(name: str, found: str) -> bool:
    """Say whether a file is what an attempt has left that was to make the file ``name``."""
    start = f".{name}."
    return found.startswith(start) and _TOKEN.match(found, len(start)) is not None


def unfinished(path: Path) -> Path:
    """Return where a file is written that is to be at ``path`` when it is whole."""
    return path.with_name(unfinished_name(path.name))


def try_out(folder: Path) -> None:
    """Make a file in a folder, and remove it: what a system says of rights is no promise.

    Raises:
        OSError: it cannot be made.
    """
    made = folder / unfinished_name("probe")
    made.touch(exist_ok=False)
    made.unlink()


def publish(made: Path, path: Path) -> None:
    """Give a whole file its name, and remove what other attempts at it have left.

    Raises:
        OSError: it cannot be renamed.
    """
    try:
        os.replace(made, path)
    except FileNotFoundError:
        if not path.exists():  # if it does, another attempt was faster, and removed this one
            raise
    for left in path.parent.glob(f".{escape(path.name)}.*"):
        if is_left_of(path.name, left.name):
            left.unlink(missing_ok=True)
