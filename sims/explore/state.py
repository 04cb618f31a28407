"""One state of a world without time: who lives, who is linked, what is on its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from overlay.machine import Closed, LinkRefused, Message, OpenLink
from sims.explore.canonical import ageless


class Channel(NamedTuple):
    """A channel: what kind of things arrive on it, from whom, at whom."""

    what: str  #: "link": what is sent over a link; "call": attempts; "answer": refusals
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Packet:
    """What one broker sent another at one go."""

    messages: tuple[Message, ...]


def packed(messages: Sequence[Message]) -> Packet:
    """Return what is sent at one go, made :mod:`~sims.explore.canonical`."""
    return Packet(tuple(map(ageless, messages)))


@dataclass(frozen=True, slots=True)
class Welcome:
    """The acceptor's answer to an attempt that succeeded."""

    request: OpenLink


Item = Packet | Welcome | Closed | OpenLink | LinkRefused


@dataclass(slots=True)
class State:
    """One state of the whole world. Channels are in the order in which they became non-empty."""

    brokers: list[int]  #: number of each broker's own state
    fate: list[str]  #: "absent", "alive", "killed" or "powerless"
    channels: dict[
        Channel, tuple[int, ...]
    ]  #: numbers of items, see :attr:`~sims.explore.world.UntimedWorld.items`
    wires: frozenset[tuple[int, int]]  #: (a, b): a has a link to b
    late: tuple[tuple[int, LinkRefused], ...]  #: attempts that will time out
    todo: tuple[int, ...]  #: actions that are still to come
    early: int  #: timers that may still run out early
    confirmed: frozenset[int] = frozenset()  #: the dead whose death somebody has confirmed

    def copy(self) -> State:
        """Return a copy that may be changed without changing this state."""
        return replace(
            self, brokers=list(self.brokers), fate=list(self.fate), channels=dict(self.channels)
        )
