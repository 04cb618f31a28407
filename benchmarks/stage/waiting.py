"""Waiting for something that happens by itself: look, look again, give up in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")

#: For a client to find a broker. A client waits for ever by default, and a measurement shall not.
FIND_SECONDS = 10.0
PAUSE_SECONDS = 0.02  #: between two looks; the only pause in the tests


def eventually(check: Callable[[], T], timeout: float = 20.0, what: str = "") -> T:
    """Return the first true answer of ``check``.

    Raises:
        AssertionError: there was none in time; the text shows the last.
    """
    deadline = time.monotonic() + timeout
    while not (found := check()):
        assert time.monotonic() < deadline, f"{what or check}: still {found!r} after {timeout} s"
        time.sleep(PAUSE_SECONDS)
    return found


async def until(check: Callable[[], T], timeout: float = 20.0, what: str = "") -> T:
    """Do the same under trio, while other tasks run."""
    deadline = trio.current_time() + timeout
    while not (found := check()):
        assert trio.current_time() < deadline, f"{what or check}: still {found!r} after {timeout} s"
        await trio.sleep(PAUSE_SECONDS)
    return found
