"""Who stands where in the published experiment, and which links there are (figures 14 and 20).

The figures are drawings, and the text of the paper does not say all of what is in them. It states
that there are 22 brokers in several super-clusters, SC-5 and SC-6 among them, that the publisher is
at 22 and the measuring subscriber at 10, and that an event passes 9 brokers on its way in topology
I. Topology II has two links more, one between SC-5 and SC-6 and one between 8 and 10 in a cluster
of SC-6; 10, 1 and 22 are reached over 4, 2 and 1 brokers there. All else here was chosen so that
these counts hold: the members of the units, all links but 8-10, and which brokers the link between
SC-5 and SC-6 joins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum

TOP = "ges22"  #: name of the one super-super-cluster

#: Names of super-clusters and clusters, and the brokers in them.
UNITS: dict[tuple[str, str], tuple[int, ...]] = {
    ("SC-5", "p"): (22, 1, 2),
    ("SC-5", "q"): (11, 12, 13),
    ("SC-4", "l"): (3, 4, 5),
    ("SC-4", "k"): (14, 15, 16),
    ("SC-6", "m"): (6, 7),
    ("SC-6", "n"): (8, 9, 10),
    ("SC-6", "o"): (17, 18, 19),
    ("SC-6", "s"): (20, 21),
}

Link = tuple[int, int]

#: Of topology I.
LINKS: tuple[Link, ...] = (
    *((22, 1), (22, 2), (1, 2), (11, 12), (12, 13), (11, 13), (2, 11)),
    *((3, 4), (3, 5), (4, 5), (14, 15), (15, 16), (14, 16), (5, 14)),
    *((6, 7), (8, 9), (9, 10), (17, 18), (18, 19), (17, 19), (20, 21)),
    *((7, 8), (7, 17), (10, 20)),
    *((1, 3), (4, 6)),  # SC-5 to SC-4, and SC-4 to SC-6
)
MORE: tuple[Link, ...] = ((1, 8), (8, 10))  #: that topology II has beside these

PUBLISHER = 22  #: the broker of the publisher
MEASURED = 10  #: the broker of the measuring subscriber
CROWD = 5  #: subscribers at each of the other brokers

BROKERS = tuple(sorted(number for unit in UNITS.values() for number in unit))


class Topology(StrEnum):
    """Figure 14 or figure 20."""

    ONE = "1"
    TWO = "2"

    @property
    def links(self) -> tuple[Link, ...]:
        """The links that events may take."""
        return LINKS if self is Topology.ONE else LINKS + MORE

    @property
    def measured(self) -> tuple[int, ...]:
        """The brokers of the measuring subscribers."""
        return (MEASURED,) if self is Topology.ONE else (MEASURED, 1, PUBLISHER)

    @property
    def stated_hops(self) -> dict[int, int]:
        """The brokers that an event passes on its way to these, as the paper states them."""
        return {MEASURED: 9} if self is Topology.ONE else {MEASURED: 4, 1: 2, PUBLISHER: 1}


def unit_of(number: int) -> str:
    """Return the unit of a broker, as ``--unit`` takes it."""
    for (super_cluster, cluster), members in UNITS.items():
        if number in members:
            return f"{TOP}/{super_cluster}/{cluster}"
    raise ValueError(f"there is no broker {number}")


def crowd() -> tuple[int, ...]:
    """Return the brokers with five subscribers each."""
    return tuple(number for number in BROKERS if number not in (PUBLISHER, MEASURED))


def hops(links: Iterable[Link], start: int = PUBLISHER) -> dict[int, int]:
    """Return how many brokers an event passes by the fewest links, both ends included."""
    near: dict[int, list[int]] = {}
    for a, b in links:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    found, queue = {start: 1}, deque([start])
    while queue:
        here = queue.popleft()
        for there in near.get(here, ()):
            if there not in found:
                found[there] = found[here] + 1
                queue.append(there)
    return found


def named_by(links: Iterable[Link], order: Iterable[int]) -> dict[int, list[int]]:
    """Return which of its links each broker is to name: those to brokers that start before it."""
    place = {number: at for at, number in enumerate(order)}
    found: dict[int, list[int]] = {number: [] for number in place}
    for a, b in links:
        early, late = sorted((a, b), key=place.__getitem__)
        found[late].append(early)
    return found
