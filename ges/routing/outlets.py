"""What routing needs of a link: who is at its other end, and a queue to put events into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar, overload

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

T = TypeVar("T")


class EventLines(Mapping[LinkKey, Line]):
    """The links that are up and that events may take.

    Where neither end is declared (:mod:`ges.topology.declared_links`) these are all links.
    """

    def __init__(
        self,
        lines: Lines,
        is_declared: bool = False,
        is_named: Callable[[str], bool] = lambda uid: False,
    ) -> None:
        """Take all links; ``is_declared``: events take links from here alone that are named."""
        self.is_declared = is_declared
        self._lines = lines
        self._is_named = is_named

    def needs_name(self, peer: Peer) -> bool:
        """Say whether a link to that broker carries events only if an end names it."""
        return self.is_declared or peer.declared

    @property
    def declared(self) -> Iterator[Line]:
        """The normal links that are named, of those that have to be."""
        for (_, link_class), line in self.items():
            if link_class.is_base and self.needs_name(line.peer):
                yield line

    @overload
    def get(self, key: LinkKey, /) -> Line | None: ...
    @overload
    def get(self, key: LinkKey, default: Line | T, /) -> Line | T: ...
    def get(self, key: LinkKey, default: object = None, /) -> object:
        """Return a link; a way of its own, as events ask for each link that they take."""
        line = self._lines.get(key)
        if line is None or (self.needs_name(line.peer) and not self._is_named(key[0])):
            return default
        return line

    def __getitem__(self, key: LinkKey) -> Line:
        line = self.get(key)
        if line is None:
            raise KeyError(key)
        return line

    def __contains__(self, key: Any) -> bool:  # noqa: ANN401 - as a mapping has it
        return self.get(key) is not None

    def __iter__(self) -> Iterator[LinkKey]:
        return (key for key in self._lines if self.get(key) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
