"""A world of brokers whose units are explored: what is under way between them, and what may happen.

Each step hands one broker one thing: the next message of a channel (channels are first in, first
out), or the word that another broker is there or gone, which comes over the same channel, behind
what that one has sent. The deeds of a broker depend on its state, its input and the time alone, so
they are computed once for each of these and remembered.
"""

from __future__ import annotations

from typing import NamedTuple

from ges.wire.client_messages import Level
from overlay.ids import Nanos
from overlay.machine import Effect, Send
from sims.explore.snapshots import Kept, Snapshot, shape
from sims.explore.unit_machine import Came, Clock, Given, Gone, Here, UnitMachine

#: Attributes that do not tell two states apart: counters for people, and what is computed from
#: other attributes alone.
COUNTED = frozenset({"counters", "_nodes", "_nodes_of", "tables"})

ABSENT = -1

Ends = tuple[int, int]  #: of a channel: sender and receiver


class Overlay(NamedTuple):
    """A state of the world: numbers of the brokers' states, and what is under way."""

    brokers: tuple[int, ...]  #: by broker; ABSENT: it has not come, or is dead
    #: By sender and receiver, what is under way: numbers of things. In the order of sending.
    channels: tuple[tuple[Ends, tuple[int, ...]], ...]
    todo: tuple[int, ...]  #: actions to come
    early: int  #: so many times may the clock go on while something is under way
    now: Nanos

    @property
    def flows(self) -> dict[Ends, tuple[int, ...]]:
        """What is under way, by sender and receiver: numbers of things."""
        return dict(self.channels)


class UnitWorld:
    """The machines, their numbered states, and the steps of the world."""

    def __init__(self, machines: list[UnitMachine]) -> None:
        self.machines = machines
        self._index = {machine.own.uid: at for at, machine in enumerate(machines)}
        self._kept: Kept = {}
        self._saved: list[list[Snapshot]] = [[] for _ in machines]
        self._numbers: list[dict[int, int]] = [{} for _ in machines]
        self._due: list[list[Nanos | None]] = [[] for _ in machines]
        self._active: list[list[bool]] = [[] for _ in machines]  #: has a subscription that is
        self._missed: dict[tuple[int, int, int], bool] = {}
        self._known: dict[tuple[int, int, Given, Nanos], tuple[int, tuple[Effect, ...]]] = {}
        self._things: list[Given] = []
        self._thing_numbers: dict[Given, int] = {}
        self._is_direct = True
        self._fresh = [self._number(at) for at in range(len(machines))]

    # ── steps ─────────────────────────────────────────────────────────────────────────────────

    def begin(self, actions: int, early: int) -> Overlay:
        """Return a world without brokers."""
        return Overlay((ABSENT,) * len(self.machines), (), tuple(range(actions)), early, 0)

    def give(self, state: Overlay, at: int, given: Given) -> Overlay:
        """Hand a broker something, and put what it sends under way."""
        number = state.brokers[at]
        if self._is_direct:
            effects = tuple(self.machines[at].take(given, state.now))
            return self._sent(state, at, 0, effects)
        asked = at, (self._fresh[at] if number == ABSENT else number), given, state.now
        known = self._known.get(asked)
        if known is None:
            self._saved[at][asked[1]].restore()
            effects = tuple(self.machines[at].take(given, state.now))
            known = self._known[asked] = self._number(at), effects
        return self._sent(state, at, *known)

    def thaw(self, state: Overlay) -> None:
        """Put the machines into a state, and let them run on by themselves until :meth:`freeze`."""
        for at, number in enumerate(state.brokers):
            self._saved[at][self._fresh[at] if number == ABSENT else number].restore()
        self._is_direct = True

    def freeze(self) -> None:
        """Back to numbered states."""
        self._is_direct = False

    def number(self, state: Overlay) -> Overlay:
        """From now on keep states; until then the machines run on by themselves."""
        self._is_direct = False
        here = (ABSENT if n == ABSENT else self._number(at) for at, n in enumerate(state.brokers))
        return state._replace(brokers=tuple(here))

    def enter(self, state: Overlay, at: int, given: Given) -> Overlay:
        """A broker comes: all others are to hear of it, before anything that it sends."""
        flows = state.flows
        for other, number in enumerate(state.brokers):
            if number != ABSENT:
                self._put(flows, at, other, Here(self.machines[at].own))
        return self.give(state._replace(channels=_full(flows)), at, given)

    def crash(self, state: Overlay, at: int, *, loses: bool) -> Overlay:
        """A broker dies; ``loses``: what it has sent and nobody has got is lost with it."""
        flows = {
            ends: () if loses and ends[0] == at else things
            for ends, things in state.flows.items()
            if ends[1] != at
        }
        brokers = (*state.brokers[:at], ABSENT, *state.brokers[at + 1 :])
        for other, number in enumerate(brokers):
            if number != ABSENT:
                self._put(flows, at, other, Gone(self.machines[at].own))
        return state._replace(brokers=brokers, channels=_full(flows))

    def deliver(self, state: Overlay, ends: Ends) -> Overlay:
        """Let the next thing of a channel arrive."""
        flows = state.flows
        first, *rest = flows.pop(ends)
        if rest:
            flows[ends] = tuple(rest)
        return self.give(state._replace(channels=_full(flows)), ends[1], self._things[first])

    def deliver_all(self, state: Overlay, at: int) -> Overlay:
        """Let all that is under way to a broker arrive, one channel after the other."""
        for ends, things in state.channels:
            for _ in things if ends[1] == at else ():
                state = self.deliver(state, ends)
        return state

    def pass_time(self, state: Overlay) -> Overlay:
        """Let the clock go on until somebody's timer is due, and run it."""
        due = self.next_deadline(state)
        assert due is not None, "somebody compares what it holds, now and then"
        state = state._replace(now=max(state.now, due))
        for at, number in enumerate(state.brokers):
            mine = self._due_at(at, number)
            if mine is not None and mine <= state.now:
                state = self.give(state, at, Clock())
        return state

    # ── what can be seen ──────────────────────────────────────────────────────────────────────

    def next_deadline(self, state: Overlay) -> Nanos | None:
        """Return when a timer is due next."""
        found = (self._due_at(at, number) for at, number in enumerate(state.brokers))
        return min((due for due in found if due is not None), default=None)

    def alive(self, state: Overlay) -> list[UnitMachine]:
        """Return the machines of those that live, as they are now."""
        return [self.machines[at] for at, number in enumerate(state.brokers) if number != ABSENT]

    def misses(self, state: Overlay, topic: bytes) -> list[str]:
        """Return which brokers would keep an event from a subscription that is active."""
        found = []
        for at, number in enumerate(state.brokers):
            if number == ABSENT or not self._is_active(at, number):
                continue
            for other, theirs in enumerate(state.brokers):
                if theirs != ABSENT and other != at and self._keeps(other, theirs, topic, at):
                    found.append(f"b{at} is active, and b{other} sends it nothing")
        return found

    def in_words(self, state: Overlay, ends: Ends) -> str:
        """Say what arrives next on a channel."""
        thing = self._things[state.flows[ends][0]]
        what = type(thing.message if isinstance(thing, Came) else thing).__name__
        if isinstance(thing, Came) and (kind := getattr(thing.message, "kind", None)) is not None:
            what += f" of kind {kind}"
        return f"b{ends[0]} -> b{ends[1]}: {what}"

    @property
    def local_states(self) -> int:
        """How many different states brokers were in."""
        return sum(map(len, self._saved))

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _sent(self, state: Overlay, at: int, number: int, effects: tuple[Effect, ...]) -> Overlay:
        brokers = (*state.brokers[:at], number, *state.brokers[at + 1 :])
        flows = state.flows
        for effect in effects:
            if isinstance(effect, Send):
                to = self._index[effect.uid]
                if brokers[to] != ABSENT:
                    self._put(flows, at, to, Came(self.machines[at].own.uid, effect.message))
        return state._replace(brokers=brokers, channels=_full(flows))

    def _is_active(self, at: int, number: int) -> bool:
        if self._is_direct:
            return Level.SYSTEM in self.machines[at].active.values()
        return self._active[at][number]

    def _keeps(self, other: int, number: int, topic: bytes, at: int) -> bool:
        source, target = self.machines[other], self.machines[at]
        if self._is_direct:
            return not source.is_for(topic, target)
        known = self._missed.get((other, number, at))
        if known is None:
            self._saved[other][number].restore()
            known = self._missed[other, number, at] = not source.is_for(topic, target)
        return known

    def _due_at(self, at: int, number: int) -> Nanos | None:
        if number == ABSENT:
            return None
        return self.machines[at].next_deadline() if self._is_direct else self._due[at][number]

    def _put(
        self, flows: dict[Ends, tuple[int, ...]], source: int, target: int, thing: Given
    ) -> None:
        number = self._thing_numbers.get(thing)
        if number is None:
            number = self._thing_numbers[thing] = len(self._things)
            self._things.append(thing)
        flows[source, target] = (*flows.get((source, target), ()), number)

    def _number(self, at: int) -> int:
        """Return the number of the state that a machine is in."""
        machine, numbers = self.machines[at], self._numbers[at]
        found = hash(shape(machine, COUNTED))
        number = numbers.get(found)
        if number is None:
            number = numbers[found] = len(numbers)
            self._saved[at].append(Snapshot(machine, self._kept))
            self._due[at].append(machine.next_deadline())
            self._active[at].append(Level.SYSTEM in machine.active.values())
        return number


def _full(
    flows: dict[Ends, tuple[int, ...]],
) -> tuple[tuple[Ends, tuple[int, ...]], ...]:
    return tuple(item for item in flows.items() if item[1])
