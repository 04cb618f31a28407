"""Which part of a broker's machine follows which: one table.

For example, a member dies: :class:`~ges.units.units_part.UnitsPart` marks ``MEMBERS``. After the
input settle those parts alone that follow a marked change, in the order of the table:
:class:`~ges.gateways.gateways_part.GatewaysPart` computes next hops and tells of its links, by
which ``STATES`` is marked; so the parts below it settle with both.

A part sees what those above it have changed in the same round. One change goes up: ``OUTER``, from
statements to gateways and losses. These settle once more then, and mark nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ges.directory.directory_part import DirectoryPart
from ges.gateways.gateways_part import GatewaysPart
from ges.gateways.losses_part import LossesPart
from ges.profiles.profiles_part import ProfilesPart
from ges.retained.retained_part import RetainedPart
from ges.statements.statements_part import StatementsPart
from ges.telling.changes import Change, Changes
from ges.telling.mailbox import Mailbox
from ges.telling.part import Part, RingView
from ges.telling.post import Post
from ges.topology.declared_links import DeclaredLinks
from ges.topology.parallel_links import ExpressLinks, SecureLinks
from ges.topology.revocation_lists import RevocationLists
from ges.topology.survey_part import SurveyPart
from ges.units.room import RoomPart
from ges.units.units_part import UnitsPart
from overlay.ids import Nanos
from overlay.machine import Effect


@dataclass(frozen=True, slots=True)
class Row:
    """One part: when it settles, and what it marks, be it then or by messages and timers."""

    part: type[Part]
    follows: frozenset[Change] = frozenset()
    changes: frozenset[Change] = frozenset()


def _these(*changes: Change) -> frozenset[Change]:
    return frozenset(changes)


#: Changes that the machine itself marks: the ring and the links come before all parts.
OF_THE_RING = _these(Change.LINKS, Change.FACTS, Change.PLACE, Change.BESIDE)

#: In the order in which parts hear of links and facts, run their timers and settle.
TABLE = (
    Row(DeclaredLinks, _these(Change.PLACE), _these(Change.CARRIERS)),
    Row(SecureLinks),
    Row(ExpressLinks, _these(Change.NEAR)),
    Row(SurveyPart, changes=_these(Change.COSTS, Change.NEAR)),
    Row(RevocationLists),
    Row(
        UnitsPart,
        _these(Change.LINKS, Change.FACTS, Change.HEARD),
        _these(Change.HEARD, Change.MEMBERS, Change.UNITS, Change.TAKEN, Change.MAIL),
    ),
    Row(Post),
    Row(RoomPart, _these(Change.MAIL)),
    Row(Mailbox),
    Row(
        GatewaysPart,
        _these(Change.LINKS, Change.FACTS, Change.PLACE, Change.CARRIERS, Change.COSTS)
        | _these(Change.MEMBERS, Change.UNITS, Change.TAKEN, Change.DUE, Change.OUTER),
        _these(Change.STATES, Change.DUE),
    ),
    Row(LossesPart, _these(Change.MEMBERS, Change.STATES, Change.OUTER)),
    Row(
        ProfilesPart,
        _these(Change.PLACE, Change.MEMBERS),
        _these(Change.ASKS, Change.ACTIVE),
    ),
    Row(
        StatementsPart,
        _these(Change.PLACE, Change.BESIDE, Change.MEMBERS, Change.UNITS, Change.STATES)
        | _these(Change.ASKS, Change.ACTIVE, Change.SAID),
        _these(Change.SAID, Change.OUTER),
    ),
    Row(RetainedPart),
    Row(DirectoryPart, _these(Change.PLACE, Change.BESIDE, Change.MEMBERS, Change.UNITS)),
)


class Following:
    """Lets the parts of one machine settle."""

    def __init__(self, changes: Changes, ring: RingView, parts: Iterable[Part]) -> None:
        """Take ``parts`` in the order of the table; some may be missing."""
        rows = {row.part: row for row in TABLE}
        self._changes = changes
        self._ring = ring
        self._place: object = None
        self._beside: object = None
        self._settling = [
            (part.settle, changes.follow(follows))
            for part in parts
            if (follows := rows[type(part)].follows)
        ]

    def settle(self, now: Nanos) -> list[Effect]:
        """Let those parts settle that follow what was marked, until nothing is."""
        effects: list[Effect] = []
        self._look()
        while self._changes.take_new():
            for settle, news in self._settling:
                if news:
                    changed = frozenset(news)
                    news.clear()
                    effects += settle(changed, now)
            self._look()
        return effects

    def _look(self) -> None:
        """Mark what the ring, which knows no parts, has changed."""
        ring = self._ring
        place, beside = (ring.member, ring.peer), (ring.left[:1], ring.right[:1])
        if place != self._place:
            self._place = place
            self._changes.mark(Change.PLACE)
        if beside != self._beside:
            self._beside = beside
            self._changes.mark(Change.BESIDE)
