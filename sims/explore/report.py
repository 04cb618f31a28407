"""What a search through all orders is made of, and what it says in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from overlay.wording import counted
from ring.core import Timer
from sims.explore.granularity import Granularity, together
from sims.explore.scopes import COMPLETE, Action
from sims.explore.state import Channel, Item, Packet, State

What = Channel | int | tuple[int, tuple[Timer, str]]
"""A channel of which the next arrives, an action's number, or a broker and its timer."""


@dataclass(frozen=True, slots=True)
class Step:
    """One choice."""

    what: What
    delay: bool = False


@dataclass(slots=True)
class Report:
    """What a search has found."""

    scenario: str
    brokers: int
    delays: int
    early: int  #: timers that may run out early
    states: int = 0
    steps: int = 0
    seen_before: int = 0
    rests: int = 0  #: different states in which nothing was left to happen
    depth: int = 0
    again: int = 0  #: states gone on from anew, as less was enough than was held to be
    grain: str = Granularity.PACKETS  #: what one step delivers
    lists: bool = False  #: without chords, and without a choice of contacts
    reduced: bool = False  #: of deliveries that commute, one order was tried for all
    is_fixed: bool = False  #: the scope says how many brokers there are
    complete: bool = True  #: within the bound, everything was tried
    findings: tuple[str, ...] = ()
    choices: tuple[int, ...] = ()  #: that led to the findings
    story: tuple[str, ...] = ()  #: the same in words

    @property
    def replay(self) -> str:
        """The command that shows the findings again."""
        chosen = ",".join(map(str, self.choices))
        brokers = "" if self.is_fixed else f"--brokers {self.brokers} "
        return (
            f"chordal sim explore {self.scenario} {brokers}"
            f"--delays {self.delays} --early {self.early}"
            f"{self._how} --replay {chosen}"
        )

    @property
    def _how(self) -> str:
        """Options of the command that are not as by default."""
        grain = f" --grain {self.grain}" if self.grain != Granularity.PACKETS else ""
        return f"{grain} --lists" if self.lists else grain

    def in_words(self) -> str:
        """Say in one line how far the search went."""
        within = "in any order"
        if self.delays != COMPLETE:
            within = f"with up to {counted(self.delays, 'delay')}"
        if self.grain != Granularity.PACKETS:
            within += f" of {self.grain}"
        if self.reduced:
            within += " (one for all that differ only in deliveries that commute)"
        if self.early:
            within += f", with {counted(self.early, 'early timer')}"
        if self.lists:
            within += ", without chords"
        if self.choices:
            return f"{self.scenario}: {counted(len(self.choices), 'step')} replayed"
        return (
            f"{self.scenario}, {self.brokers} brokers, {within}: {self.states} states, "
            f"{self.steps} steps ({self.seen_before} to states seen before), depth {self.depth}, "
            f"{counted(self.rests, 'way')} to come to rest: {self._how_far}"
        )

    @property
    def _how_far(self) -> str:
        if not self.complete:
            return "not complete, stopped at the limit"
        return "complete" if self.delays == COMPLETE else "complete within that bound"


class Trail:
    """How a state was reached; shares its beginning with others."""

    __slots__ = ("before", "choice", "depth")

    def __init__(self, before: Trail | None, choice: int) -> None:
        self.before = before
        self.choice = choice
        self.depth: int = 0 if before is None else before.depth + 1

    def choices(self) -> tuple[int, ...]:
        """Return the choices that led here, the first one first."""
        found = []
        here: Trail | None = self
        while here is not None and here.before is not None:
            found.append(here.choice)
            here = here.before
        return tuple(reversed(found))


def in_words(
    step: Step,
    state: State,
    items: Sequence[Item],
    actions: Sequence[Action],
    place: Sequence[int],
    grain: Granularity = Granularity.PACKETS,
) -> str:
    """Say what happens in ``state``; ``place``: numbers of the brokers in the order of the ring."""
    what = step.what
    if isinstance(what, int):
        return str(actions[what])
    name = {number: f"b{at}" for at, number in enumerate(place)}
    if not isinstance(what, Channel):
        return f"at {name[what[0]]} the timer {what[1][0].name} runs out early"
    said = [
        f"{name[channel.source]} -> {name[channel.target]}: "
        f"{', '.join(_shown(items[number]) for number in numbers)}"
        for channel, numbers in together(state, what, grain)
    ]
    return f"{'; '.join(said)} {'is put off' if step.delay else 'arrives'}"


def _shown(item: Item) -> str:
    if isinstance(item, Packet):
        return ", ".join(type(message).__name__ for message in item.messages)
    return type(item).__name__
