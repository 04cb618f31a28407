"""The states of single brokers, by number.

The reaction of one broker to one input depends on its state alone. So its states are numbered, and
what follows from (state, input) is remembered: the same step is computed once, however many states
of the whole world it is part of.
"""

from __future__ import annotations

from dataclasses import dataclass

from overlay.ids import Nanos, Peer
from overlay.machine import Effect, Input, Refused
from ring.core import Timer
from ring.invariants import Snapshot
from ring.node import RingNode
from sims.explore import snapshots

Told = Input | tuple[Timer, str]  #: what a broker is given: an input, or a timer that runs out

#: Timers that may run out early; the others wait until nothing else can happen.
EARLY = frozenset({Timer.TEST, Timer.PROBE, Timer.JOIN, Timer.MEASURE, Timer.RESERVED})


@dataclass(frozen=True, slots=True)
class LocalState:
    """One numbered state of one broker, and what can be seen of it."""

    shape: int  #: a hash of all that tells it apart
    frozen: snapshots.Snapshot
    peer: Peer
    view: Snapshot | None  #: None: not on the ring
    unlinked: tuple[str, ...]  #: pointers that lead to nobody linked or under suspicion
    timers: tuple[tuple[Timer, str], ...]  #: that may run out early


class LocalStates:
    """The states of each broker; its machine is put into them as needed."""

    def __init__(self, nodes: list[RingNode]) -> None:
        self.moment: Nanos = 0  #: at which the clock stands
        self.locals: list[list[LocalState]] = [[] for _ in nodes]
        self._nodes = nodes
        self._numbers: list[dict[int, int]] = [{} for _ in nodes]
        self._kept: snapshots.Kept = {}
        self._known: dict[tuple[int, int, Told], tuple[int, tuple[Effect, ...]]] = {}
        self._admits: dict[tuple[int, int, Peer], Refused | None] = {}

    def number(self, at: int) -> int:
        """Return the number of the state that a machine is in."""
        node = self._nodes[at]
        node.normalise()
        numbers = self._numbers[at]
        shape = hash(snapshots.shape(node))  # the shape itself is large
        number = numbers.get(shape)
        if number is None:
            number = numbers[shape] = len(numbers)
            pointers = {m.uid for m in (*node.left, *node.right)}
            self.locals[at].append(
                LocalState(
                    shape,
                    snapshots.Snapshot(node, self._kept),
                    node.peer,
                    view_of(node),
                    tuple(sorted(pointers - node.linked.keys() - set(node.suspects))),
                    tuple(key for key in node.armed if key[0] in EARLY),
                )
            )
        return number

    def react(self, at: int, number: int, event: Told) -> tuple[int, tuple[Effect, ...]]:
        """Return the number of a broker's state after ``event`` in its state ``number``.

        And what it does meanwhile.
        """
        asked = (at, number, event)
        known = self._known.get(asked)
        if known is None:
            node = self._nodes[at]
            self.locals[at][number].frozen.restore()
            if isinstance(event, tuple):
                effects = node.expire(event, self.moment)
            else:
                effects = node.handle(event, self.moment)
            known = self._known[asked] = (self.number(at), tuple(effects))
        return known

    def admits(self, at: int, number: int, peer: Peer) -> Refused | None:
        """Say whether a broker in its state ``number`` lets ``peer`` make a link; None: it does."""
        asked = (at, number, peer)
        if asked not in self._admits:
            self.locals[at][number].frozen.restore()
            self._admits[asked] = self._nodes[at].admit(peer)
        return self._admits[asked]

    def forgotten(self, at: int, number: int) -> int:
        """Return the number that stands for all states of a dead broker: nobody looks at them."""
        peer = self.locals[at][number].peer
        return next(n for n, local in enumerate(self.locals[at]) if local.peer == peer)


def view_of(node: RingNode) -> Snapshot | None:
    """Return the pointers of a broker; None: it is not on the ring."""
    member = node.member
    return None if member is None else Snapshot(member, node.left, node.right, node.known)
