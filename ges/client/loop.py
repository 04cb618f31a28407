"""What an event loop is to the client: something to wait for, and a way to let others go first.

Whatever else waits until it is cancelled is in the face of each loop: in
``ges/client`` itself for trio, in ``ges/client/aio`` for asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


class Flag(Protocol):
    """A ``trio.Event`` or an ``asyncio.Event``."""

    def set(self) -> None:
        """Let go on who waits."""

    def is_set(self) -> bool:
        """Say whether it is set."""

    async def wait(self) -> object:
        """Wait until it is set."""


class Within(Protocol):
    """What gives something a limit in time."""

    async def __call__(self, seconds: float, what: Callable[[], Awaitable[T]]) -> T | None:
        """Return what it returns; None if it is not done in time, and so was cancelled."""


@dataclass(frozen=True, slots=True)
class Loop:
    """An event loop."""

    event: Callable[[], Flag]
    let_others: Callable[[], Awaitable[object]]  #: run before this task goes on
    sleep: Callable[[float], Awaitable[object]]  #: for so many seconds
    within: Within
