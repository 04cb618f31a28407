"""What changes in a broker's machine, and which part has heard of it.

A part that changes something marks it (:meth:`Changes.mark`), and knows nobody that follows. For
example, the table of members is marked as changed, and the parts for links, lost connections,
profiles, statements and names settle after this input, and no others. :mod:`ges.following` says
which part follows which change.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto


class Change(Enum):
    """A kind of change that one part of a machine, or the machine itself, makes."""

    LINKS = auto()  #: a link came up, went down, was refused, or is closed by the ring
    FACTS = auto()  #: the ring or a part has found something
    PLACE = auto()  #: this broker has another place on the ring, or another life
    BESIDE = auto()  #: it has another neighbour, left or right
    CARRIERS = auto()  #: other links carry events
    COSTS = auto()  #: another cost of a link counts
    NEAR = auto()  #: normal links were measured to be fast enough for express ones
    HEARD = auto()  #: there is something about units to be followed
    MEMBERS = auto()  #: the table of members, or who is one
    UNITS = auto()  #: the tables of units, or the arcs that they are to be about
    TAKEN = auto()  #: all brokers of a context hold its table
    MAIL = auto()  #: letters wait for those who stood beside this broker
    STATES = auto()  #: what members have told of their links
    DUE = auto()  #: it is time to look at links, or at names
    ASKS = auto()  #: what is held of what members want
    ACTIVE = auto()  #: subscriptions are active in the cluster
    SAID = auto()  #: a unit was stated something of
    OUTER = auto()  #: the links between other units, or that brokers there wait for slots


class Changes:
    """The marked changes of one machine, for each part that follows them."""

    def __init__(self) -> None:
        self._followers: dict[Change, list[set[Change]]] = {each: [] for each in Change}
        self._are_new = False

    def follow(self, changes: Iterable[Change]) -> set[Change]:
        """Return a set into which these changes come when they are marked, for its owner to empty.

        Nothing is in it yet.
        """
        news: set[Change] = set()
        for each in changes:
            self._followers[each].append(news)
        return news

    def mark(self, change: Change) -> None:
        """Say that something has changed."""
        self._are_new = True
        for news in self._followers[change]:
            news.add(change)

    def take_new(self) -> bool:
        """Say whether something was marked since the last call."""
        are_new, self._are_new = self._are_new, False
        return are_new
