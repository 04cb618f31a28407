"""What a broker keeps between two lives: its uid, and which incarnations it has used.

Without a data directory a broker is a new one each time. Incarnations are taken from the clock, so
that a broker whose directory was lost, but not its identity, still comes back with a larger one.
"""

from __future__ import annotations

import fcntl
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import msgspec
import structlog

from overlay.errors import ConfigError
from overlay.ids import Uid, WireUid, parse_uid
from overlay.security.keyfiles import writable_by_others
from overlay.security.own_file import open_lock, replace
from overlay.security.regular_file import read_regular
from overlay.wording import why_no_folder

MAX_BYTES = 64 * 1024  #: of the file that says who the broker is; it takes a hundred

_log = structlog.get_logger("chordal.data")


class _Life(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    uid: WireUid
    incarnation: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


@dataclass(frozen=True, slots=True)
class Life:
    """Who the broker is in this life."""

    uid: Uid
    incarnation: int
    directory: Path | None
    lock: IO[str] | None  #: held open as long as the process lives


def begin_life(directory: Path | None, *, certified_uid: str | None) -> Life:
    """Begin a life in ``directory``, creating it if needed; the new incarnation is on disk first.

    Raises:
        ConfigError: the directory is not usable, its file is damaged or belongs to another
            identity, or another process lives in it.
    """
    if directory is None:
        uid = certified_uid or secrets.token_hex(16)
        return Life(Uid(uid), int(time.time()), None, None)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open_lock(directory / "lock")
        complaint = writable_by_others(directory)
    except OSError as error:
        raise ConfigError(
            f"data directory {directory}: {why_no_folder(error)}; name another"
        ) from error
    if complaint is not None:
        _log.warning("others may change the data directory", why=complaint)
    try:
        life = _next_life(lock, directory, certified_uid)
    except ConfigError:
        lock.close()
        raise
    return Life(parse_uid(life.uid), life.incarnation, directory, lock)


def check_directory(directory: Path, *, certified_uid: str | None) -> None:
    """Look whether a broker can live there, changing nothing; another one may live there now.

    Raises:
        ConfigError: its file is damaged, or belongs to another identity.
    """
    path = directory / "broker.json"
    known = _read(path)
    if known is not None and certified_uid not in (None, known.uid):
        raise _foreign(path, known.uid, certified_uid)


def _foreign(path: Path, known_uid: str, uid: str | None) -> ConfigError:
    return ConfigError(
        f"{path} belongs to broker {known_uid}, the identity to {uid}; "
        "use the data directory that goes with the identity"
    )


def _next_life(lock: IO[str], directory: Path, certified_uid: str | None) -> _Life:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ConfigError(f"data directory {directory}: another broker is using it") from error
    path = directory / "broker.json"
    known = _read(path)
    uid = certified_uid or (known.uid if known is not None else secrets.token_hex(16))
    if known is not None and known.uid != uid:
        raise _foreign(path, known.uid, uid)
    life = _Life(uid, max(int(time.time()), known.incarnation + 1 if known is not None else 0))
    _write(path, life)
    return life


def _read(path: Path) -> _Life | None:
    try:
        return msgspec.json.decode(read_regular(path, MAX_BYTES)[0], type=_Life)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is damaged ({error}); remove it to start as a new broker"
        ) from error


def _write(path: Path, life: _Life) -> None:
    try:
        replace(path, msgspec.json.encode(life))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
