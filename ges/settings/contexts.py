"""Connections by name, as ``prod`` or ``lab``: which broker, and who this client is there.

They stand in one file of the user, ``chordal/contexts.json`` in the XDG folder for settings. It
names files with secrets, and holds none itself; all the same nobody else may read it, nor write it:
who could write it would choose to whom a token is sent.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path

import msgspec

from overlay.errors import ConfigError
from overlay.security.regular_file import read_regular

MAX_FILE_BYTES = 1024 * 1024
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One connection; what is None is as it is without a context."""

    broker: str | None = None  #: URLs, with commas between
    identity: str | None = None  #: folder, absolute
    token_file: str | None = None  #: absolute
    overlay: str | None = None
    description: str = ""

    @property
    def options(self) -> dict[str, str]:
        """What it says, by the names of the options of commands."""
        names = {"broker": "broker", "identity": "identity", "token_file": "token"}
        names["overlay"] = "overlay"
        found = {option: getattr(self, field) for field, option in names.items()}
        return {option: value for option, value in found.items() if value is not None}


class Contexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All connections of one user, and which is used where none is named."""

    contexts: dict[str, Context] = {}
    selected: str | None = None

    def get(self, name: str) -> Context:
        """Return one.

        Raises:
            ConfigError: there is none of that name; the text says which is nearest.
        """
        if name in self.contexts:
            return self.contexts[name]
        near = get_close_matches(name, self.contexts, 1)
        mend = f"the nearest is {near[0]!r}" if near else "'chordal context list' lists all"
        raise ConfigError(f"there is no context {name!r}; {mend}")

    def with_context(self, name: str, context: Context, *, replace: bool) -> Contexts:
        """Return these and one more.

        Raises:
            ConfigError: there is one of that name, and it is not to be replaced.
        """
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} cannot name a context: 1 to 64 letters, digits, '.', '_' and '-', "
                "beginning with a letter or digit"
            )
        if name in self.contexts and not replace:
            raise ConfigError(f"there is a context {name!r} already; --replace puts another there")
        return Contexts({**self.contexts, name: context}, self.selected)

    def without(self, name: str) -> Contexts:
        """Return these without one, which is selected no more if it was.

        Raises:
            ConfigError: there is none of that name.
        """
        self.get(name)
        rest = {other: context for other, context in self.contexts.items() if other != name}
        return Contexts(rest, None if self.selected == name else self.selected)

    def selecting(self, name: str | None) -> Contexts:
        """Return these with one selected, or none.

        Raises:
            ConfigError: there is none of that name.
        """
        if name is not None:
            self.get(name)
        return Contexts(self.contexts, name)


def contexts_path(environment: Mapping[str, str]) -> Path:
    """Return where the contexts of the user stand."""
    given = environment.get("XDG_CONFIG_HOME", "")
    home = Path(given) if os.path.isabs(given) else Path("~/.config").expanduser()  # XDG: absolute
    return home / "chordal" / "contexts.json"


def load_contexts(path: Path) -> Contexts:
    """Read the contexts; none if there is no file.

    Raises:
        ConfigError: it cannot be read, others may read or write it, or it is damaged.
    """
    try:
        data, mode = read_regular(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(f"{path}: open to group or others; chmod 600 {path}")
    try:
        return msgspec.json.decode(data, type=Contexts)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        mend = "mend it, or remove it and add the contexts again"
        raise ConfigError(f"{path}: no file of contexts ({error}); {mend}") from None


@contextmanager
def changing(path: Path) -> Iterator[Contexts]:
    """Give the contexts as they are; nobody else changes them during the block.

    Raises:
        ConfigError: as :func:`load_contexts`, or the folder cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"{path.parent}: {error.strerror or error}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield load_contexts(path)
    finally:
        os.close(folder)


def save_contexts(path: Path, contexts: Contexts) -> None:
    """Put the contexts in place, with mode 0600.

    Raises:
        ConfigError: they cannot be written.
    """
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=".contexts.", dir=path.parent)  # 0600
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(contexts), indent=1) + b"\n")
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary)
        raise ConfigError(f"{path}: {error.strerror or error}") from None
