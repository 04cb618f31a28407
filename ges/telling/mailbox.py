"""What members say to the way of events through this broker: it comes with the control messages.

What clients have missed that have come from another cluster is asked of all brokers of the overlay:
that is told them over the tree on arcs (:mod:`ges.telling.spread`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ges.telling.arcs import WHOLE
from ges.telling.part import CommandHandler, MessageHandler, Part
from ges.telling.spread import Spread
from ges.wire.recall_messages import RECALL_MESSAGES, PastWanted
from ges.wire.telling_messages import Kind
from overlay.ids import Nanos
from overlay.machine import Command, Effect, Fact, Message, Notify
from overlay.multigraph.weights import LinkKey


@dataclass(frozen=True, slots=True)
class Mailed(Fact):
    """A broker has said something that the way of events takes."""

    uid: str
    message: Message


@dataclass(frozen=True, slots=True)
class AskAll(Command):
    """Ask all brokers of the overlay; each that has something says so to who asks."""

    wanted: PastWanted


@dataclass(frozen=True, slots=True)
class AllAsked(Fact):
    """A question has come to all of them; some may not have answered if it took 30 s."""

    number: int


class Mailbox(Part):
    """Hands on what is not for the control machine."""

    def __init__(self, spread: Spread) -> None:
        self._spread = spread
        spread.register(Kind.PAST, PastWanted, self._on_told)

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """Questions for events, and answers."""
        return dict.fromkeys(RECALL_MESSAGES, self._on_message)

    @property
    def commands(self) -> Mapping[type[Command], CommandHandler]:
        """What the way of events has to ask all brokers."""
        return {AskAll: self._on_ask_all}

    def _on_message(self, key: LinkKey, message: Message, now: Nanos) -> list[Effect]:
        return [Notify(Mailed(key[0], message))]

    def _on_told(self, wanted: PastWanted, uid: str, now: Nanos) -> tuple[bool, list[Effect]]:
        return True, [Notify(Mailed(uid, wanted))]

    def _on_ask_all(self, ask: AskAll, now: Nanos) -> list[Effect]:
        number = ask.wanted.number

        def on_done(missing: frozenset[str], now: Nanos) -> list[Effect]:
            return [Notify(AllAsked(number))]

        return self._spread.tell(Kind.PAST, ask.wanted, now, on_done, WHOLE, whole=True)
