"""A message for one member, whether it is linked or not.

To a linked member it goes over the normal link. Else it goes from broker to broker along the ring,
each time to the one that stands nearest before the place of the member. As ring neighbours are
linked, each step comes nearer, so it ends after O(log n) hops, whatever else is known of the way.
It may be lost; whoever sends it sees to it that it is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ges.telling.part import CommandHandler, MessageHandler, Part
from ges.telling.spread import Surroundings
from ges.wire.telling_messages import Letter
from overlay.errors import CodecError
from overlay.ids import Nanos
from overlay.machine import Command, Effect, Message, Send
from overlay.multigraph.weights import LinkKey
from overlay.wire.codec import MessageCodec
from overlay.wire.frames import HEADER
from ring.geometry import clockwise

MAX_HOPS = 64
ANYBODY = "0" * 32  #: as uid: whoever stands at the place
NEAREST = "f" * 32  #: as uid: whoever stands nearest before the place


@dataclass(frozen=True, slots=True)
class Mail(Command):
    """Send a member a message."""

    uid: str
    message: Message
    place: int | None = None  #: its ring id, where it may be no member of the cluster


class Post(Part):
    """Sends and passes on letters."""

    def __init__(
        self,
        around: Surroundings,
        codec: MessageCodec,
        deliver: Callable[[str, Message, Nanos], list[Effect]],
    ) -> None:
        """``deliver`` takes what is for this broker, with the uid of the sender."""
        self._around = around
        self._codec = codec
        self._deliver = deliver

    def send(self, uid: str, message: Message, place: int | None = None) -> list[Effect]:
        """Send a message to a member; ``place``: its ring id, where the table may not have it."""
        if uid in self._around.linked:
            return [Send(uid, message)]
        row = self._around.live.get(uid)
        if place is None and row is not None:
            place = row.member.ring_id
        if place is None or uid == self._around.peer.uid:
            return []
        content = self._codec.encode(message)[HEADER.size :]
        return self._pass_on(Letter(uid, place, self._around.peer.uid, 0, content))

    def is_nearest(self, place: int) -> bool:
        """Say whether this broker stands nearest before a place, of those that it is linked to."""
        member = self._around.member
        if member is None:
            return False
        far = clockwise(member.ring_id, place)
        return all(clockwise(other, place) >= far for other in self._around.linked.values())

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """Letters."""
        return {Letter: self._on_letter}

    @property
    def commands(self) -> Mapping[type[Command], CommandHandler]:
        """What the way of events has to say to members."""
        return {Mail: self._on_mail}

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _on_mail(self, mail: Mail, now: Nanos) -> list[Effect]:
        return self.send(mail.uid, mail.message, mail.place)

    def _on_letter(self, key: LinkKey, letter: Letter, now: Nanos) -> list[Effect]:
        if not key[1].is_base or letter.origin == self._around.peer.uid:
            return []
        if not self._is_ours(letter):
            if letter.hops >= MAX_HOPS:
                return []
            onward = Letter(
                letter.uid, letter.place, letter.origin, letter.hops + 1, letter.content
            )
            return self._pass_on(onward)
        try:
            message = self._codec.decode(letter.content)
        except CodecError:
            return []  # who sent it speaks another version; a letter ends no link
        return self._deliver(letter.origin, message, now)

    def _is_ours(self, letter: Letter) -> bool:
        member = self._around.member
        if letter.uid == NEAREST:
            return self.is_nearest(letter.place)
        if letter.uid == ANYBODY:
            return member is not None and member.ring_id == letter.place
        return letter.uid == self._around.peer.uid

    def _pass_on(self, letter: Letter) -> list[Effect]:
        """Pass a letter to whoever stands nearest before its place, if that is nearer than here."""
        member, linked = self._around.member, self._around.linked
        if letter.uid in linked:
            return [Send(letter.uid, letter)]
        if member is None or not linked:
            return []
        nearest = min(linked, key=lambda uid: clockwise(linked[uid], letter.place))
        if clockwise(linked[nearest], letter.place) >= clockwise(member.ring_id, letter.place):
            return []
        return [Send(nearest, letter)]
