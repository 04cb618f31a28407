"""Reading a file that the user has named, whatever it turns out to be.

A pipe has no end, nor has a device: who reads one waits for ever, or until memory is full. So what
is no regular file is refused, and what is too large for what it is to hold, before it is read.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, most: int) -> tuple[bytes, int]:
    """Return what is in a regular file of at most ``most`` bytes, and the file's mode.

    Raises:
        OSError: it cannot be opened or read, is no regular file, or holds more; ``strerror`` says
            which.
    """
    # Not to block: whoever opens a pipe would wait for somebody to write into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        # All is asked of the open file: the path could be swapped after a look at it.
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        if found.st_size > most:
            raise _too_large(path, most)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(most + 1)
    finally:
        os.close(descriptor)
    if len(data) > most:  # it has grown, or does not say how large it is, as those in /proc
        raise _too_large(path, most)
    return data, found.st_mode


def _too_large(path: Path, most: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
