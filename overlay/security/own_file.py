"""Writing the files that a broker keeps in a folder, though others may have been there before.

Where others may write into a folder, they can put a link there that leads to a file of the broker's
owner. So no link is followed, and nothing is opened that is no regular file.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO

_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_lock(path: Path) -> IO[str]:
    """Open a file that is only locked, and make it for its owner alone if it is not there.

    Raises:
        OSError: it is a link, or no regular file, or the operating system refuses.
    """
    descriptor = _opened(path, os.O_RDWR | os.O_CREAT, 0o600)
    with suppress(OSError):  # it may be another's; whoever can read it can lock it
        os.fchmod(descriptor, 0o600)
    return open(descriptor, "r+")


def append(path: Path, data: bytes) -> None:
    """Append to a file in a single write, so that no reader sees half of it.

    Raises:
        OSError: as :func:`open_lock` does.
    """
    descriptor = _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    with open(descriptor, "ab", buffering=0) as file:
        file.write(data)


def replace(path: Path, data: bytes) -> None:
    """Replace a file, or make it, for its owner alone; it is seen old or new, never in part.

    Raises:
        OSError: the operating system refuses.
    """
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)  # of a process that was killed, or a link that others have laid
    with open(_opened(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _opened(path: Path, flags: int, mode: int) -> int:
    try:
        descriptor = os.open(path, flags | _SAFELY, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(error.errno, f"{path.name} is a symbolic link", str(path)) from None
        if error.errno == errno.ENXIO:  # a pipe that nobody reads, or a socket
            raise _no_file(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_file(path)
    return descriptor


def _no_file(path: Path) -> OSError:
    return OSError(errno.EINVAL, f"{path.name} is no regular file", str(path))
