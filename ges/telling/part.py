"""What the parts of a broker's machine beside the ring have in common.

The machine (:mod:`ges.node`) gives each message and each command to the one part that takes it, and
tells all parts, in their order, of links and facts. For example, a normal link comes up: the ring
hears of it first, then every part greets the broker at the other end, then every part takes note of
the link, and in the end those parts settle that follow what has changed (:mod:`ges.following`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Protocol

from ges.telling.changes import Change
from overlay.ids import Nanos, Peer
from overlay.machine import (
    CloseLink,
    Command,
    Effect,
    Fact,
    LinkDown,
    LinkRefused,
    LinkUp,
    Message,
)
from overlay.multigraph.weights import LinkKey
from ring.wire.messages import Member

#: Takes a message of its type, and the link it came over, at a time.
MessageHandler = Callable[[LinkKey, Any, Nanos], list[Effect]]
#: Takes a command of its type at a time.
CommandHandler = Callable[[Any, Nanos], list[Effect]]


class RingView(Protocol):
    """What parts see of this broker's ring node."""

    @property
    def peer(self) -> Peer:
        """How others reach this broker; the incarnation may grow."""

    @property
    def member(self) -> Member | None:
        """This broker with its place, once it is on the ring."""

    @property
    def left(self) -> Sequence[Member]:
        """Left and left-left, as far as they exist."""

    @property
    def right(self) -> Sequence[Member]:
        """Right and right-right, as far as they exist."""


class Part(Protocol):
    """One part; a class that is one overrides what concerns it, the rest does nothing.

    Times are in nanoseconds. Effects are performed in the order they are returned in;
    a list that is returned is the caller's.
    """

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """The messages it takes, over links of every class; no other part takes them."""
        return {}

    @property
    def commands(self) -> Mapping[type[Command], CommandHandler]:
        """The commands it takes; no other part takes them."""
        return {}

    def greet(self, uid: str) -> list[Effect]:
        """Tell a broker that is newly linked what is known."""
        return []

    def on_link(self, event: LinkUp | LinkDown | LinkRefused, now: Nanos) -> list[Effect]:
        """Take note that a link of any class came up, went down or was refused."""
        return []

    def on_close(self, close: CloseLink, now: Nanos) -> list[Effect]:
        """Take note that the ring closes a normal link, for which there is no ``LinkDown``."""
        return []

    def on_fact(self, fact: Fact, now: Nanos) -> list[Effect]:
        """Follow what the ring or another part has found."""
        return []

    def handle_timers(self, now: Nanos) -> list[Effect]:
        """Do what has come due by ``now``."""
        return []

    def next_deadline(self) -> Nanos | None:
        """Return when it wants to be called next, whatever happens until then; None: never."""
        return None

    def settle(self, changed: Set[Change], now: Nanos) -> list[Effect]:
        """Follow what has changed, by :mod:`ges.following`; called when some of that has."""
        return []


def earliest(deadlines: Iterable[Callable[[], Nanos | None]]) -> Nanos | None:
    """Return the first of some deadlines, or None; a loop, as it is asked for after each input."""
    found = None
    for deadline in deadlines:
        due = deadline()
        if due is not None and (found is None or due < found):
            found = due
    return found
