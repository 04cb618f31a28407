"""What routing needs of a link: who is at its other end, and a queue to put events into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from overlay.ids import LinkClass, Peer
from overlay.multigraph.weights import LinkKey
from overlay.queues.outlet import Outlet


class Line(Protocol):
    """A link that is up; on trio an :class:`overlay.links.link.Link`."""

    @property
    def peer(self) -> Peer:
        """The broker at its other end."""

    @property
    def link_class(self) -> LinkClass:
        """Normal, express or secure."""

    @property
    def connection(self) -> Outlet:
        """Where events for that broker are queued."""

    def arrived(self, count: int) -> int:
        """Note that so many events that are not express have come.

        Returns how many of them, the first, have come before over an earlier connection.
        """


#: The links that are up, by the uid at the other end and class.
Lines = Mapping[LinkKey, Line]
