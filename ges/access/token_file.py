"""Files of tokens: the book that a broker reads, and the one token that a client keeps.

Both are written with mode 0600 and put in place whole, so a broker that reads meanwhile sees the
old book or the new one.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ges.access.tokens import (
    MAX_TOKEN_CHARACTERS,
    SECRET_BYTES,
    TokenBook,
    TokenRecord,
    check_token,
    check_token_name,
    parse_book,
    secret_hash,
)
from ges.errors import TokenError
from overlay.security.regular_file import read_regular

MAX_BOOK_BYTES = 32 * 1024 * 1024
_ISSUE = "make one with 'chordal token issue'"


def load_book(path: Path) -> TokenBook:
    """Read a book of tokens.

    Raises:
        TokenError: it is missing, unreadable, writable by others, or no book.
    """
    return parse_book(_read(path, MAX_BOOK_BYTES, forbidden=0o022), str(path))


def load_token(path: Path) -> str:
    """Read the token a client keeps in ``path``.

    Raises:
        TokenError: it is missing, unreadable, open to others, or holds no token.
    """
    data = _read(path, 4 * MAX_TOKEN_CHARACTERS, forbidden=0o077)
    try:
        text = data.decode().strip()
    except UnicodeDecodeError:
        text = ""
    return check_token(text, str(path))


def issue_token(path: Path, name: str, now_unix_s: int, lifetime_s: float | None) -> str:
    """Add a token to the book at ``path``, which is made if there is none; returns the token.

    Raises:
        TokenError: the name is taken or none, or the book cannot be read or written.
    """
    check_token_name(name)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    expires = None if lifetime_s is None else now_unix_s + max(1, round(lifetime_s))
    record = TokenRecord(name, secret_hash(secret), now_unix_s, expires)
    with _changing(path) as is_new:
        book = TokenBook() if is_new else load_book(path)
        _replace(path, book.with_token(record).encode())
    return f"{name}.{secret}"


def revoke_token(path: Path, name: str) -> None:
    """Take a token out of the book at ``path``.

    Raises:
        TokenError: there is none of that name, or the book cannot be read or written.
    """
    with _changing(path):
        _replace(path, load_book(path).without(name).encode())


def write_token(path: Path, token: str) -> None:
    """Write a client's token into a new file.

    Raises:
        TokenError: the file exists, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w") as file:
            file.write(token + "\n")
    except FileExistsError as error:
        raise TokenError(f"{path}: exists already and is not overwritten; name another") from error
    except OSError as error:
        raise _unusable(path, error, "name a file in a folder of your own") from error


def file_mark(path: Path) -> tuple[int, int, int] | None:
    """Return what changes whenever the file is put in place anew; None: it cannot be seen."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _read(path: Path, limit: int, *, forbidden: int) -> bytes:
    try:
        data, mode = read_regular(path, limit)
    except OSError as error:
        raise _unusable(path, error, _ISSUE) from error
    mode = stat.S_IMODE(mode)
    if mode & forbidden:
        verb = "writable by" if forbidden == 0o022 else "open to"
        raise TokenError(f"{path}: {verb} group or others; chmod {mode & ~forbidden:o} {path}")
    return data


@contextmanager
def _changing(path: Path) -> Iterator[bool]:
    """Let nobody else change a file in that folder meanwhile; says whether it is a new one."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _unusable(path.parent, error, "name a file in a folder that exists") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield not path.exists()
    finally:
        os.close(folder)


def _replace(path: Path, data: bytes) -> None:
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise _unusable(path, error, "name a file in a folder of your own") from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)


def _unusable(path: Path, error: OSError, mend: str) -> TokenError:
    if isinstance(error, PermissionError):
        mend = "run as the user who owns it"
    return TokenError(f"{path}: {error.strerror or error}; {mend}")
