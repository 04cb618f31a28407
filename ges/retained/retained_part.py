"""The part of a broker's machine that finds out where members keep other retained values.

Retained events go to all members when they are published. A member that has just joined, or has
missed one, finds out when ring neighbours compare what they hold (:mod:`ges.telling.comparison`).
It asks its neighbour (:mod:`ges.telling.shared`) and says what it keeps, as a row for each of 256
buckets of topics. It gets the values of the buckets that differ, and is asked for its own in turn.
Secure values are compared by those alone that secure links lead to.

Where a comparison goes on to differ and nothing has come of the last question, as where two brokers
have unlike bounds, the next one is asked after twice as long, up to two minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ges.gateways.gateways_part import GatewaysPart
from ges.retained.values import BUCKETS, RetainedValues
from ges.telling.part import Part
from ges.telling.post import Post
from ges.telling.shared import Asking
from ges.units.units_part import UnitsPart
from ges.wire.telling_messages import HeldRow, Kind, RowsWanted, RowVersion
from overlay.ids import LinkClass, Nanos, nanos
from overlay.machine import Effect, Fact, Notify

AGAIN_NS = nanos(2.0)  #: a broker that was asked in vain is asked again after this, ...
LONGEST_NS = nanos(120.0)  #: ... then after twice as long, up to this


@dataclass(frozen=True, slots=True)
class ValuesAsked(Fact):
    """A member keeps other values in these buckets: send it what is kept here."""

    uid: str
    secure: bool
    marks: tuple[int, ...]


class RetainedPart(Part):
    """The values of one broker, as members compare them; the way of events puts them in."""

    def __init__(self, units: UnitsPart, gateways: GatewaysPart, post: Post) -> None:
        self.values = RetainedValues()
        self._gateways = gateways
        for kind, secure in ((Kind.RETAINED, False), (Kind.SECURE_RETAINED, True)):
            held = _Compared(self.values, secure=secure)
            concerns = self._is_reached if secure else None
            pauses = AGAIN_NS, LONGEST_NS
            units.sharing.compare(Asking(kind, held, post.send, concerns=concerns, pauses=pauses))

    def _is_reached(self, uid: str) -> bool:
        """Say whether secure links lead to a member."""
        slot = self._gateways.slots.get(uid)
        table = self._gateways.tables.get(LinkClass.SECURE)  # None: this broker has no slot yet
        return slot is not None and table is not None and bool(table.reached >> slot & 1)


class _Compared:
    """The values of one class, as they are shared; the version of a bucket is its mark."""

    def __init__(self, values: RetainedValues, *, secure: bool) -> None:
        self._values = values
        self._secure = secure

    @property
    def digest(self) -> int:
        """63 bits that are equal where two brokers keep the same values."""
        return self._values.digest(secure=self._secure)

    @property
    def held(self) -> list[HeldRow]:
        """The marks of the buckets in which there are values."""
        marks = enumerate(self._values.marks(secure=self._secure))
        return [HeldRow(str(at), RowVersion(mark, 0)) for at, mark in marks if mark]

    def answer(self, uid: str, wanted: RowsWanted, now: Nanos) -> tuple[list[Effect], bool]:
        """Have the values sent of the buckets that differ; the other broker may have some, too."""
        theirs = {each.key: each.version.epoch for each in wanted.held}
        marks = tuple(theirs.get(str(at), 0) for at in range(BUCKETS))
        if marks == self._values.marks(secure=self._secure):
            return [], False
        return [Notify(ValuesAsked(uid, self._secure, marks))], True
