"""What is measured: match rates, sizes of events, and rates at which they are published.

An event has six tags, which are the levels of its topic: ``ges22/a/b/25-0/e/f`` say. The first
three are the same in all events and all subscriptions, and the fourth decides. At a match rate of
25 % there are four values, ``25-0`` to ``25-3``; events have them in turn, and all clients of one
broker want one of them. So each client gets a quarter of the events, and each event is for a
quarter of the brokers. All measuring subscribers want the first value, so that they get the same
events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

import msgspec

from ges.bench.ges22.paper import STATED
from ges.bench.ges22.topology import Topology, crowd

MATCHES = (100, 50, 25, 10)
SIZES = (50, 250, 450)
RATES = (20.0, 100.0, 400.0)
SECONDS = 3.0
QUICK_SIZES = (250,)
QUICK_RATES = (20.0,)
QUICK_SECONDS = 2.0

LEAST_BYTES, MOST_BYTES = 30, 500  #: of an event, as in the paper
MOST_RATE = 1000.0  #: events a second, as in the paper

HALF = 0.0  #: stands for half of the rate at which nothing more gets through
FLAT_OUT = -1.0  #: as fast as the publisher's broker takes them
SATURATION_BYTES = 250

_FIRST, _LAST = "ges22/a/b", "e/f"


class Cell(msgspec.Struct, frozen=True):
    """One combination."""

    match: int  #: percent of the events that a client gets
    size: int  #: bytes of a payload
    rate: float  #: events a second that are to be published; or :data:`FLAT_OUT`
    is_half: bool = False  #: the rate is half of the one found to be the most
    number: int = 0  #: stands in its events: one that comes late is of another cell

    @property
    def values(self) -> int:
        """How many values the fourth tag has."""
        return values_of(self.match)


LEAST_EVENTS = 10  #: that each client is to get, where that does not take too long
LONGEST_SECONDS = 10.0


def seconds_of(cell: Cell, seconds: float) -> float:
    """Return how long the events of a cell are published; ``seconds`` at least."""
    if cell.rate <= 0:
        return seconds
    return max(seconds, min(LEAST_EVENTS * cell.values / cell.rate, LONGEST_SECONDS))


def values_of(match: int) -> int:
    """Return how many values the fourth tag has at a match rate."""
    return 100 // match


def topic(match: int, value: int) -> str:
    """Return the topic of events with that value of the fourth tag."""
    return f"{_FIRST}/{match}-{value}/{_LAST}"


def topic_filter(match: int, value: int) -> str:
    """Return the filter of a client that wants these events."""
    return f"{_FIRST}/{match}-{value}/+/+"


def value_wanted(number: int, match: int, topology: Topology) -> int:
    """Return the value of the fourth tag that the clients of a broker want."""
    if number in topology.measured:
        return 0
    others = [each for each in crowd() if each not in topology.measured]
    return (others.index(number) + 1) % values_of(match)


def cells(
    matches: Iterable[int], sizes: Iterable[int], rates: Iterable[float], *, with_stated: bool
) -> Iterator[Cell]:
    """Yield what is to be measured, the least load first, each once.

    ``with_stated``: beside the grid those points of which the paper states figures; at half of the
    most, :data:`HALF` stands for the rate.
    """
    matches = tuple(matches)
    grid = set(product(matches, sizes, rates))
    if with_stated:
        grid |= {point for point in STATED if point[0] in matches}
    by_load = sorted(grid, key=lambda p: (-p[0], p[2] == HALF, p[2], p[1]))
    for number, (match, size, rate) in enumerate(by_load, start=1):
        yield Cell(match, size, rate, is_half=rate == HALF, number=number)
