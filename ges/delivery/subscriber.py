"""What routing needs of a client."""

from __future__ import annotations

from typing import Protocol

from ges.wire.asked import Ask
from overlay.ids import LinkClass
from overlay.queues.outlet import Outlet
from overlay.shares import Source


class Subscriber(Protocol):
    """A client that is attached; in a broker a :class:`ges.sessions.session.Session`."""

    waiting_bytes: int  #: of memory for what is still to be looked up for it

    @property
    def asks(self) -> dict[int, Ask]:
        """What it asks for, by the numbers of its subscriptions."""

    @property
    def last(self) -> dict[LinkClass, int]:
        """The sequence taken last of its own events of each class."""

    @property
    def secure(self) -> bool:
        """Secure events may travel on this hop."""

    @property
    def connection(self) -> Outlet:
        """Where events for it are queued."""

    @property
    def source(self) -> Source:
        """To whom it counts, where there is only so much of something."""
