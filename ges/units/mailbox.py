"""What members say to the way of events through this broker: it comes with the control messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ges.topology.part import MessageHandler, Part
from ges.wire.recall_messages import RECALL_MESSAGES
from overlay.ids import Nanos
from overlay.machine import Effect, Fact, Message, Notify
from overlay.multigraph.weights import LinkKey


@dataclass(frozen=True, slots=True)
class Mailed(Fact):
    """A member has said something that the way of events takes."""

    uid: str
    message: Message


class Mailbox(Part):
    """Hands on what is not for the control machine."""

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """Questions for events, and answers."""
        return dict.fromkeys(RECALL_MESSAGES, self._on_message)

    def _on_message(self, key: LinkKey, message: Message, now: Nanos) -> list[Effect]:
        return [Notify(Mailed(key[0], message))]
