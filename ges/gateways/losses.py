"""How bad it is that a connection between two units is lost: harmless, degraded or a partition.

Clusters A and B are joined by two links, and B and C by one. If one link between A and B is lost,
the other one does: that is *harmless*. If the second is lost too, A may still reach B by way of the
cluster next to it, or by leaving the super-cluster and coming back: then the two are *degraded*. If
there is no way at all, it is a *partition*.

The rule, for two units of one level in one context, after links between them were lost:

* partition: no path leads from one to the other;
* degraded: no path does that stays inside the context; or each that does takes one and the same
  link; or it passes more units than before;
* harmless: all else. Two links that are left are always harmless.

How far two units are from each other counts in the papers' costs (:mod:`ges.gateways.costs`): a hop
between two units of level l costs 2l. So hops between brokers of one cluster, level 0, cost
nothing, and one that is replaced by two is harmless.

A lost gateway of a level may be made good by one of a higher level, never the other way: the long
report on the Grid Event Service, conjecture 9.1. Events do not take such a way, as paths obey the
direction rule (:mod:`ges.gateways.paths`); so it is degraded, not harmless.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from ges.gateways.costs import matrix
from ges.gateways.graph import level_of

#: How many links join two nodes, by the nodes, the smaller first.
Links = Mapping[tuple[int, int], int]


class Severity(StrEnum):
    """What the loss of a connection between two units means for them."""

    HARMLESS = "harmless"
    DEGRADED = "degraded"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class Connections:
    """The links that one broker knows of, at one moment, between the nodes that it can name."""

    links: Links = field(default_factory=dict)
    own: Mapping[int, int] = field(default_factory=dict)  #: by level: the node of its own unit
    #: What each node is, its own units among them: a node may be another unit later.
    names: Mapping[int, Hashable] = field(default_factory=dict)

    def at_level(self, level: int) -> dict[tuple[int, int], int]:
        """Return the links with all that is below a level contracted to this broker's own unit."""
        own = self.own.get(level)
        found: Counter[tuple[int, int]] = Counter()
        for (a, b), count in self.links.items():
            ends = [node if level_of(node) >= level else own for node in (a, b)]
            if None not in ends and ends[0] != ends[1]:
                here, there = sorted(each for each in ends if each is not None)
                found[here, there] += count
        return dict(found)


@dataclass(frozen=True, slots=True)
class Loss:
    """Links between two units of one level were lost."""

    level: int
    a: int  #: their nodes, the smaller first
    b: int
    severity: Severity
    left: int  #: links that still join the two


def losses(before: Connections, after: Connections) -> Iterator[Loss]:
    """Yield each pair of units with fewer links than before, at each level, and how bad it is.

    A unit that is not there any more, or is something else by now, has not lost a connection: it is
    gone.
    """
    for level in sorted({0, *after.own}):
        had, have = before.at_level(level), after.at_level(level)
        for (a, b), count in sorted(had.items()):
            left = have.get((a, b), 0)
            if left >= count or level_of(a) != level or level_of(b) != level:
                continue
            if _is_same(a, before, after) and _is_same(b, before, after):
                yield Loss(level, a, b, classify(have, a, b), left)


def cut_off(found: Connections, node: int) -> int:
    """Return how many nodes of the level of one of a broker's own nodes no path leads to from it.

    Those that have no link at all count too.
    """
    level = level_of(node)
    reached = _reached(found.at_level(level), node)
    return sum(level_of(other) == level and other not in reached for other in found.names)


def classify(links: Links, a: int, b: int) -> Severity:
    """Say how bad it is for two units of one level that links between them were lost.

    They had at least one; ``links`` are those that there are now, contracted to their level.
    """
    level = level_of(a)
    inside = {ends: count for ends, count in links.items() if level_of(ends[1]) == level}
    path = _path(inside, a, b)
    if path is None:
        return Severity.DEGRADED if _path(links, a, b) is not None else Severity.PARTITION
    hops = len(path) - 1
    is_farther = hops > 1 and matrix(level, level) > 0  # one hop is what they had
    return Severity.DEGRADED if is_farther or _hangs_by_one(inside, path) else Severity.HARMLESS


def _is_same(node: int, before: Connections, after: Connections) -> bool:
    name = after.names.get(node)
    return name is not None and before.names.get(node) == name


def _hangs_by_one(links: Links, path: list[int]) -> bool:
    """Say whether one link more would cut the ends of a path off from each other."""
    for here, there in pairwise(path):
        ends = min(here, there), max(here, there)
        if links[ends] == 1:
            others = {each: count for each, count in links.items() if each != ends}
            if _path(others, path[0], path[-1]) is None:
                return True
    return False


def _path(links: Links, a: int, b: int) -> list[int] | None:
    """Return a path with the fewest hops, with both its ends; None: there is none."""
    came_from = _reached(links, a)
    if b not in came_from:
        return None
    path = [b]
    while path[-1] != a:
        path.append(came_from[path[-1]])
    return path[::-1]


def _reached(links: Links, a: int) -> dict[int, int]:
    """Return each node that a path leads to, with the one before it on the shortest."""
    near: dict[int, list[int]] = {}
    for (here, there), count in links.items():
        if count:
            near.setdefault(here, []).append(there)
            near.setdefault(there, []).append(here)
    came_from = {a: a}
    queue = deque([a])
    while queue:
        node = queue.popleft()
        for other in near.get(node, ()):
            if other not in came_from:
                came_from[other] = node
                queue.append(other)
    return came_from
