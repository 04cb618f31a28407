"""States of the world as numbers, and steps as what is added to them.

A step concerns few brokers and links, and finds each of them in the same condition again and again.
So the world is taken apart into *cells*: each broker by itself, and what each has of each other one
(whether it is linked to it, and what is under way from it). The conditions of a cell are numbered,
and a state of the world is those numbers put into one integer. A step is carried out once for each
condition of the cells that it looks at (:attr:`sims.explore.world.UntimedWorld.touched`). The
change of the state is remembered, and is the same wherever they are so again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from overlay.machine import LinkRefused
from sims.errors import SimulationError
from sims.explore.state import Channel, State
from sims.explore.world import UntimedWorld

WIDTH = 20  #: bits for the condition of a cell
MASK = (1 << WIDTH) - 1
#: What a state leaves if divided by it is its fingerprint. The next prime after some digits of pi:
#: with one near a power of two, changes of cells that many bits apart would cancel each other.
PRIME = 3141592653589793238462643383279502987

Cell = int | tuple[int, int]  #: a broker by itself, or what there is from one at another
Packed = int  #: a state of the world: the conditions of its cells, and of what is nobody's
Block = int  #: the conditions of all cells that are at one broker
Act = Callable[[State], None]
T = TypeVar("T")
Note = Callable[[State, State], T]


class Own(NamedTuple):
    """The condition of a broker by itself."""

    number: int  #: of its state
    fate: str


class Between(NamedTuple):
    """The condition of what one broker has of another."""

    linked: bool  #: it has a link to it
    channels: tuple[tuple[Channel, tuple[int, ...]], ...]  #: what is under way from it


class Common(NamedTuple):
    """What is nobody's."""

    late: tuple[tuple[int, LinkRefused], ...]
    todo: tuple[int, ...]
    early: int
    confirmed: frozenset[int]
    order: tuple[Channel, ...] = ()  #: in which channels became non-empty, where that counts


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a step comes to for those brokers that it concerns."""

    adds: int  #: to the state
    late: tuple[tuple[int, LinkRefused], ...]  #: further attempts that will time out
    said: Any


@dataclass(frozen=True, slots=True)
class _Look:
    """A step depends on one more broker: what follows, by the number of its cell."""

    shift: int
    then: dict[int, _Look | _Outcome]


class PackedStates:
    """Numbers conditions, takes states apart, and remembers steps.

    ``ordered``: the order in which channels became non-empty tells states apart.
    """

    def __init__(self, world: UntimedWorld, *, ordered: bool) -> None:
        self._world = world
        self._ordered = ordered
        self.brokers = brokers = range(len(world.nodes))
        cells: list[Cell] = []
        for at in brokers:
            cells += [at, *((other, at) for other in brokers)]
        #: Where in a state the condition of a cell begins.
        self._shift: dict[Cell, int] = {cell: WIDTH * at for at, cell in enumerate(cells)}
        self._block = WIDTH * (1 + len(brokers))  #: bits of all there is of one broker
        self._mask = (1 << self._block) - 1
        self._rest = WIDTH * len(self._shift)
        self._low = (1 << self._rest) - 1  #: the bits of all cells
        self._conditions: dict[Cell, _Numbers] = {cell: _Numbers() for cell in self._shift}
        self._commons = _Numbers()
        self._known: dict[Hashable, _Look | _Outcome] = {}

    # ── states ────────────────────────────────────────────────────────────────────────────────

    def pack(self, state: State) -> Packed:
        """Return the number of a state."""
        channels: dict[Cell, list[tuple[Channel, tuple[int, ...]]]] = {}
        for channel in sorted(state.channels):
            there = channels.setdefault(channel[1:], [])
            there.append((channel, state.channels[channel]))
        order = tuple(state.channels) if self._ordered else ()
        common = Common(state.late, state.todo, state.early, state.confirmed, order)
        packed = self._commons.number(common) << self._rest
        for cell, shift in self._shift.items():
            condition: Hashable
            if isinstance(cell, int):
                condition = Own(state.brokers[cell], state.fate[cell])
            else:
                source, target = cell
                linked = (target, source) in state.wires
                condition = Between(linked, tuple(channels.get(cell, ())))
            packed |= self._conditions[cell].number(condition) << shift
        return packed

    def unpack(self, packed: Packed) -> State:
        """Return the state that has the number ``packed``."""
        own = [self.own(packed, at) for at in self.brokers]
        common = self.common(packed)
        channels: dict[Channel, tuple[int, ...]] = {}
        wires = []
        for target in self.brokers:
            for source in self.brokers:
                cell = (source, target)
                between: Between = self._conditions[cell].all[packed >> self._shift[cell] & MASK]
                channels.update(between.channels)
                if between.linked:
                    wires.append((target, source))
        if self._ordered:
            channels = {channel: channels[channel] for channel in common.order}
        return State(
            [one.number for one in own],
            [one.fate for one in own],
            channels,
            frozenset(wires),
            common.late,
            common.todo,
            common.early,
            common.confirmed,
        )

    def own(self, packed: Packed, at: int) -> Own:
        """Return the condition of a broker by itself."""
        own: Own = self._conditions[at].all[packed >> self._shift[at] & MASK]
        return own

    def block(self, packed: Packed, at: int) -> Block:
        """Return all there is of one broker, as a number."""
        return packed >> self._block * at & self._mask

    def common(self, packed: Packed) -> Common:
        """Return what is nobody's."""
        common: Common = self._commons.all[packed >> self._rest]
        return common

    def with_common(self, packed: Packed, common: Common) -> Packed:
        """Return ``packed`` with something else that is nobody's."""
        return (packed & self._low) | self._commons.number(common) << self._rest

    # ── steps ─────────────────────────────────────────────────────────────────────────────────

    def take(self, packed: Packed, step: Hashable, act: Act, note: Note[T]) -> tuple[Packed, T]:
        """Return the state after ``step``, and what ``note`` says of it.

        ``act`` carries the step out where it is not known yet. Then ``note`` is asked about the
        states before and after.
        """
        if self._ordered:
            state = (before := self.unpack(packed)).copy()
            act(state)
            after = self.pack(state)
            return after, note(before, state)
        known = self._known.get(step)
        while type(known) is _Look:
            known = known.then.get(packed >> known.shift & MASK)
        if known is None:
            known = self._carry_out(packed, step, act, note)
        assert type(known) is _Outcome
        after = packed + known.adds
        if known.late:
            common = self.common(after)
            late = tuple(sorted((*common.late, *known.late), key=repr))
            after = self.with_common(after, common._replace(late=late))
        said: T = known.said
        return after, said

    def _carry_out(self, packed: Packed, step: Hashable, act: Act, note: Note[T]) -> _Outcome:
        touched = self._world.touched
        touched.clear()
        state = (before := self.unpack(packed)).copy()
        act(state)
        looked_at = [self._shift[cell] for cell in touched]
        after = self.pack(state)
        changed = (packed ^ after) & self._low
        if changed & ~sum(MASK << shift for shift in looked_at):
            raise SimulationError("a step has changed what it did not look at")
        late = list(state.late)
        for one in before.late:
            late.remove(one)
        adds = (after & self._low) - (packed & self._low)
        found = _Outcome(adds, tuple(late), note(before, state))
        table: dict[Any, _Look | _Outcome] = self._known
        key: Hashable = step
        for shift in looked_at:
            look = table.setdefault(key, _Look(shift, {}))
            assert type(look) is _Look
            table, key = look.then, packed >> shift & MASK
        table[key] = found
        return found


class _Numbers:
    """Numbers values as they come up."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, value: Hashable) -> int:
        number = self._numbers.setdefault(value, len(self.all))
        if number == len(self.all):
            self.all.append(value)
            if number > MASK:
                raise SimulationError("more conditions than can be numbered")
        return number
