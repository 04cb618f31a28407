"""What a newcomer asks for in the papers, as a pure function.

A newcomer asks a broker, the *addressee*, for a place with a vector of bits (Grid Event Service
protocols, section 3.1). For example, ``00000011`` means: into the cluster of the addressee (bit 0),
and a link from there to another cluster of its super-cluster (bit 1). ``00000110`` means: into
another super-cluster, with a link of level 2 to that of the addressee, and a link of level 1 there.
The first bit is 1 where the links of the highest level lead *from* the addressee's unit, so that
the newcomer is put into that unit.

Brokers have a threshold for the links of each level, and a rule for who is let into their cluster.
Who is at its threshold passes the request on inside its cluster.

Without bit 0, the newcomer's address differs from that of the addressee from the highest level of
its bits on, as section 3.1.1 says. Joins of this
software choose places by the ring and by names (:mod:`ges.units.placement`), and take from here the
admission and the thresholds (:mod:`ges.units.entry_rules`). This function says what the papers'
protocol would do in a system that is given, so that the two can be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from overlay.errors import ConfigError

BITS = 8
LEVELS = 4

#: Names from the top: super-super-cluster, super-cluster, cluster, broker.
Path = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class RequestVector:
    """What a newcomer asks to be."""

    levels: frozenset[int]  #: of gatekeepers
    comes_from: bool = False  #: the links of the highest level lead from the addressee's unit


@dataclass(frozen=True, slots=True)
class Connected:
    """The newcomer has a place."""

    unit: tuple[str, ...]  #: the cluster, from the top
    links: Mapping[int, Path]  #: by level: to whom


@dataclass(frozen=True, slots=True)
class AskNext:
    """The cluster has no room; one of these may."""

    gatekeepers: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """There is no place."""

    reason: str


@dataclass(frozen=True, slots=True)
class System:
    """Brokers, their links, and what they let happen."""

    brokers: Collection[Path]
    links: Collection[tuple[Path, Path]] = ()
    thresholds: Mapping[Path, tuple[int, ...]] = field(default_factory=dict)  #: by level; none: any
    admits: Callable[[Path], bool] = lambda broker: True  #: whether it lets the newcomer in

    def count(self, broker: Path) -> Counter[int]:
        """Return how many links of each level a broker has."""
        ends = (each for link in self.links for each in (link, link[::-1]))
        return Counter(level_between(a, b) for a, b in ends if a == broker)

    def has_room(self, broker: Path, level: int) -> bool:
        """Say whether a broker takes one more link of a level."""
        most = self.thresholds.get(broker)
        return most is None or self.count(broker)[level] < most[level]


def parse_vector(text: str) -> RequestVector:
    """Return the vector that is written as 8 digits, the one of level 0 last.

    Raises:
        ConfigError: these are no 8 digits 0 and 1, or no level is asked for that there is.
    """
    if len(text) != BITS or set(text) - {"0", "1"}:
        raise ConfigError(f"{text!r} is no request: give {BITS} digits 0 and 1, such as 00000011")
    levels = frozenset(level for level, bit in enumerate(reversed(text[1:])) if bit == "1")
    if not levels or max(levels) >= LEVELS:
        raise ConfigError(f"{text!r} asks for no level from 0 to {LEVELS - 1}")
    return RequestVector(levels, text[0] == "1")


def level_between(one: Path, other: Path) -> int:
    """Return the level of a link: 0 inside a cluster, 1 between clusters, and so on."""
    first = next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), LEVELS - 1)
    return LEVELS - 1 - first


def place(system: System, addressee: Path, vector: RequestVector) -> Connected | AskNext | Failed:
    """Say what becomes of a newcomer's request."""
    if 0 in vector.levels:
        return _beside(system, addressee, vector)
    return _elsewhere(system, addressee, vector)


def why_unit_may_not(level: int, vector: RequestVector) -> str | None:
    """Return why a whole unit of a level may not join with a vector; None: it may.

    A broker of a unit that is added is in a cluster, a super-cluster and so on already, up to the
    unit itself; so it can be no gatekeeper of a lower level elsewhere.
    """
    below = sorted(each for each in vector.levels if each < level)
    return f"it is in a unit of level {below[-1] + 1} already" if below else None


# ── inside ────────────────────────────────────────────────────────────────────────────────────


def _beside(system: System, addressee: Path, vector: RequestVector) -> Connected | AskNext | Failed:
    """Put the newcomer into the addressee's cluster."""
    cluster = addressee[:-1]
    if not system.admits(addressee):
        return Failed("the cluster does not admit it")
    inside = [addressee, *(each for each in _members(system, cluster) if each != addressee)]
    first = next((each for each in inside if system.has_room(each, 0)), None)
    if first is None:
        ends = (each for link in system.links for each in (link, link[::-1]))
        outside = {b for a, b in ends if a[:-1] == cluster and level_between(a, b) == 1}
        return AskNext(tuple(sorted(outside)))
    return _with_links(system, cluster, {0: first}, vector.levels - {0})


def _elsewhere(system: System, addressee: Path, vector: RequestVector) -> Connected | Failed:
    """Put the newcomer into another unit of the highest level, or into the addressee's own."""
    level = max(vector.levels)
    cut = LEVELS - level  # names of a unit of that level
    own, context = addressee[:cut], addressee[: cut - 1]
    far = [each for each in _members(system, context) if each[:cut] != own]
    near = [addressee, *(each for each in _members(system, own) if each != addressee)]
    homes, ends = (near, far) if vector.comes_from else (far, near)
    end = next((each for each in ends if system.has_room(each, level)), None)
    if end is None:
        return Failed(f"all are at their thresholds of level {level}")
    why = f"no other unit of level {level} accepts it"
    for home in homes:
        if system.admits(home) and system.has_room(home, 0):
            found = _with_links(system, home[:-1], {0: home, level: end}, vector.levels - {level})
            if isinstance(found, Connected):
                return found
            why = found.reason
    return Failed(why)


def _with_links(
    system: System, cluster: tuple[str, ...], links: dict[int, Path], levels: Iterable[int]
) -> Connected | Failed:
    """Find a broker at the other end of a link of each further level."""
    for level in sorted(levels):
        cut = LEVELS - level
        there = _members(system, cluster[: cut - 1])
        ends = (each for each in there if each[:cut] != cluster[:cut])
        end = next((each for each in ends if system.has_room(each, level)), None)
        if end is None:
            return Failed(f"nobody takes a link of level {level}")
        links[level] = end
    return Connected(cluster, links)


def _members(system: System, unit: tuple[str, ...]) -> Iterator[Path]:
    return (each for each in sorted(system.brokers) if each[: len(unit)] == unit)
