"""What the brokers of a context are told of each of its units: what is wanted there, and its links.

A statement is made by the steward of its unit, and all brokers of the context hold it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from ges.wire.asked import Ask
from ges.wire.gateway_messages import WireBucket
from ges.wire.telling_messages import RowVersion
from ges.wire.unit_messages import MAX_SLOTS, UnitLevel
from overlay.ids import LinkClass
from ring.wire.messages import RingId

MAX_STATED = 1024  #: asks of a unit; more are merged to wider ones, ...
MAX_STATED_BYTES = 40 * 1024  #: ... as are those that take more bytes
MAX_STATED_GROUPS = 256  #: of these: how many are for queue groups, which are not merged ...
MAX_STATED_GROUPS_BYTES = 16 * 1024  #: ... and what they may take; of others nobody is told
MAX_EDGES = 384  #: to other units, of all classes

UnitNode = Annotated[int, msgspec.Meta(ge=MAX_SLOTS, lt=4 * MAX_SLOTS)]


class UnitEdge(msgspec.Struct, frozen=True, array_like=True):
    """Links of one class from inside a unit to another one that its context has beside it."""

    node: UnitNode  #: the other unit (:mod:`ges.units.nodes`)
    link_class: LinkClass
    bucket: WireBucket  #: of the cheapest
    count: Annotated[int, msgspec.Meta(ge=1, le=2**16)]  #: at least so many


class SecureHealth(StrEnum):
    """How the secure part of a unit is (:mod:`ges.statements.health`)."""

    NONE = "none"  #: nobody in it holds an identity
    WHOLE = "whole"  #: who wants secure events in it gets what is let in
    BROKEN = "broken"


class UnitStatement(msgspec.Struct, frozen=True, array_like=True):
    """What is wanted in a unit, and which other units it has links to.

    Its epoch is that of the table of units by which it was made, its writer the steward.
    """

    level: UnitLevel
    lo: RingId
    hi: RingId
    version: RowVersion
    asks: Annotated[tuple[Ask, ...], msgspec.Meta(max_length=MAX_STATED)]
    edges: Annotated[tuple[UnitEdge, ...], msgspec.Meta(max_length=MAX_EDGES)]
    secure: SecureHealth = SecureHealth.WHOLE  #: an earlier version does not say
    is_crowded: bool = False  #: brokers in it wait for slots, so no event can name them


class StatementTaken(msgspec.Struct, frozen=True, array_like=True):
    """All brokers of the context hold this statement; told in the unit that it is about."""

    level: UnitLevel
    lo: RingId
    hi: RingId
    version: RowVersion
