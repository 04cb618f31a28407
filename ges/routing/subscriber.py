"""What routing needs of a client."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ges.wire.realms import Realm
from overlay.ids import LinkClass
from overlay.queues.outlet import Outlet
from overlay.shares import Source


class Membership(NamedTuple):
    """What a subscription in a queue group is for."""

    filter: str
    only: LinkClass | None  #: the only class of events; None: all
    group: str
    realm: int = Realm.ALL  #: only events published in the same unit of that level


class Subscriber(Protocol):
    """A client that is attached; in a broker a :class:`ges.sessions.session.Session`."""

    waiting_bytes: int  #: of memory for what is still to be looked up for it

    @property
    def filters(self) -> dict[int, tuple[str, LinkClass | None]]:
        """Its filters, each with the only class of events it is for, by subscription number.

        Those in a queue group are not among them.
        """

    @property
    def realms(self) -> dict[int, int]:
        """The realms of those of its filters that are for events of some units alone."""

    @property
    def names(self) -> dict[int, str]:
        """The names that it has taken, by the number of the subscription."""

    @property
    def queues(self) -> dict[int, Membership]:
        """Its subscriptions in queue groups, by number."""

    @property
    def last(self) -> dict[LinkClass, int]:
        """The sequence taken last of its own events of each class."""

    @property
    def secure(self) -> bool:
        """Secure events may travel on this hop."""

    @property
    def retains(self) -> bool:
        """It knows retained events, and events that end."""

    @property
    def connection(self) -> Outlet:
        """Where events for it are queued."""

    @property
    def source(self) -> Source:
        """To whom it counts, where there is only so much of something."""
