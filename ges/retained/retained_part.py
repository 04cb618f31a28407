"""The part of a broker's machine that finds out where members keep other retained values.

Retained events go to all members when they are published. A broker that has just joined, or has
missed one, finds out when ring neighbours compare what they hold (:mod:`ges.telling.comparison`): it
tells the other what it keeps, as marks of 256 buckets of topics (:class:`RetainedWanted`), and gets the
values of those that differ. Then it is asked for its own in turn. Secure values are compared by
those alone that secure links lead to.

Where a comparison goes on to differ and nothing has come of the last question, as where two brokers
have unlike bounds, the next one is asked after twice as long, up to two minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ges.gateways.gateways_part import GatewaysPart
from ges.retained.values import RetainedValues
from ges.telling.part import MessageHandler, Part
from ges.telling.post import Post
from ges.units.units_part import UnitsPart
from ges.wire.retained_messages import RetainedWanted, pack_marks, read_marks
from ges.wire.telling_messages import Kind
from overlay.ids import LinkClass, Nanos, nanos
from overlay.machine import Effect, Fact, Message, Notify
from overlay.multigraph.weights import LinkKey

AGAIN_NS = nanos(2.0)  #: who is asked in vain is asked again after this, then twice as long ...
LONGEST_NS = nanos(120.0)  #: ... up to this


@dataclass(frozen=True, slots=True)
class ValuesAsked(Fact):
    """A member keeps other values in these buckets: send it what is kept here."""

    uid: str
    secure: bool
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    digest: int  #: of what was kept here then
    again_at: Nanos
    pause: Nanos


class RetainedPart(Part):
    """The values of one broker, as members compare them; the way of events puts them in."""

    def __init__(self, units: UnitsPart, gateways: GatewaysPart, post: Post) -> None:
        self.values = RetainedValues()
        self._gateways = gateways
        self._post = post
        self._units = units
        units.comparison.register(Kind.RETAINED, _Compared(self, secure=False))
        secure = _Compared(self, secure=True)
        units.comparison.register(Kind.SECURE_RETAINED, secure, self._is_reached)

    @property
    def messages(self) -> Mapping[type[Message], MessageHandler]:
        """What members ask each other."""
        return {RetainedWanted: self._on_wanted}

    def wanted(self, *, secure: bool, answer: bool) -> RetainedWanted:
        """Return the question for what others keep."""
        return RetainedWanted(secure, pack_marks(self.values.marks(secure=secure)), answer)

    def send(self, uid: str, message: Message) -> list[Effect]:
        """Send a member a message."""
        return self._post.send(uid, message)

    def prune(self, asked: dict[str, _Asked]) -> None:
        """Forget what was asked of brokers that are members no more."""
        for uid in asked.keys() - self._units.members.keys():
            del asked[uid]

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _is_reached(self, uid: str) -> bool:
        """Say whether secure links lead to a member."""
        slot = self._gateways.slots.get(uid)
        table = self._gateways.tables.get(LinkClass.SECURE)  # None: this broker has no slot yet
        return slot is not None and table is not None and bool(table.reached >> slot & 1)

    def _on_wanted(self, key: LinkKey, wanted: RetainedWanted, now: Nanos) -> list[Effect]:
        uid, secure, marks = key[0], wanted.secure, read_marks(wanted.marks)
        if (secure and not self._is_reached(uid)) or marks == self.values.marks(secure=secure):
            return []
        effects: list[Effect] = [Notify(ValuesAsked(uid, secure, marks))]
        if not wanted.answer:
            effects += self.send(uid, self.wanted(secure=secure, answer=True))
        return effects


class _Compared:
    """The values of one class, as :class:`ges.telling.comparison.Comparison` compares them."""

    def __init__(self, part: RetainedPart, *, secure: bool) -> None:
        self._part = part
        self._secure = secure
        self._asked: dict[str, _Asked] = {}

    @property
    def digest(self) -> int:
        """63 bits that are equal where two brokers keep the same values."""
        return self._part.values.digest(secure=self._secure)

    def on_differs(self, uid: str, now: Nanos) -> list[Effect]:
        """Another broker keeps other values: ask it, but not for ever in vain."""
        digest, last = self.digest, self._asked.get(uid)
        pause = AGAIN_NS
        if last is not None and last.digest == digest:
            if now < last.again_at:
                return []
            pause = min(2 * last.pause, LONGEST_NS)
        self._part.prune(self._asked)
        self._asked[uid] = _Asked(digest, now + pause, pause)
        return self._part.send(uid, self._part.wanted(secure=self._secure, answer=False))
