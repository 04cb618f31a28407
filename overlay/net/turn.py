"""One turn of a reader: what it queues on other connections is written at its end, at once.

Waking a writer's task costs as much as handling some twenty events. So a connection that gets
something to send within a turn is only noted here, and at the end of the turn each is written to
as far as the kernel takes it without waiting; only what is left then wakes the writer's task.
"""

from __future__ import annotations

from typing import Protocol

from overlay.queues.pace import Pace


class Waiting(Protocol):
    """What may have got something to send within a turn: a connection."""

    @property
    def has_express(self) -> bool:
        """Express events wait in its queue: it is written to before those without."""

    @property
    def crowded(self) -> bool:
        """So much waits that who can should hold back."""

    @property
    def pressed(self) -> bool:
        """A quarter of what may wait does: the policy of its queue may act soon."""

    @property
    def pace(self) -> Pace | None:
        """How fast a subscriber takes what is queued for it; None: it is none."""

    @property
    def may_hold(self) -> bool:
        """Whether :meth:`hold` would wait at all."""

    def write_now(self) -> None:
        """Write what can be written without waiting."""

    async def hold(self) -> None:
        """Wait for room in its queue, as long as its reader has earned."""

    async def room(self) -> None:
        """Wait until it is no longer crowded, or is closing."""


class Turn:
    """Shared by all connections of one process that forward to each other.

    ``with turn:`` holds writes back for the length of the block, which must not wait; then writes.
    """

    __slots__ = ("_noted", "crowded", "fed", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        #: Queues of subscribers that were fed since the last reader waited, and had room then.
        self.fed: set[Waiting] = set()
        self.crowded: set[Waiting] = set()  #: queues the next reader should wait for
        self._noted: list[Waiting] = []

    def note(self, connection: Waiting) -> None:
        """Remember an idle connection that has got something to send."""
        self._noted.append(connection)

    def take_crowded(self) -> tuple[list[Waiting], bool]:
        """Return, once, which queues are crowded, and whether a subscriber's that was fed has room.

        That a link has room says nothing of how fast those are who want the events behind it.
        """
        crowded = [queue for queue in self.crowded if queue.crowded]
        relieved = self.crowded.difference(crowded) if len(crowded) < len(self.crowded) else ()
        has_room = any(queue.pace is not None for queue in relieved) or any(
            not queue.crowded for queue in self.fed
        )
        self.crowded.clear()
        self.fed.clear()
        return crowded, has_room

    def __enter__(self) -> None:
        self.is_open = True

    def __exit__(self, *error: object) -> None:
        self.is_open = False
        if self._noted:
            noted, self._noted = self._noted, []
            for connection in sorted(noted, key=_is_normal):
                connection.write_now()


def _is_normal(connection: Waiting) -> bool:
    """Say whether nothing express waits: then others are written to before it."""
    return not connection.has_express
