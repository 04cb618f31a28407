"""Broken rules of the hierarchy: what units state, how events enter them, when they name them."""

from __future__ import annotations

from typing import Any

from ges.gateways import naming
from ges.gateways.gates import Gates
from ges.gateways.naming import Naming
from ges.profiles.index import ProfileIndex
from ges.routing.entering import Entering
from ges.routing.mask_plan import MaskPlan
from ges.statements import held, statements_part
from ges.statements.held import Statements
from ges.statements.statements_part import StatementsPart
from ges.units.nodes import from_level
from ges.wire.events import Duty
from tests.mutants.mutant import Chapter, Method, around

LEVELS = Chapter(first="units")

# ── what units state ──────────────────────────────────────────────────────────────────────────────


def _shown(self: Statements, unit: Any) -> None:  # noqa: ANN401
    found = self.get(unit)
    index: ProfileIndex = self._indices[unit[0]]
    index.replace(held._key(unit), found.interests if found is not None else ())


LEVELS.add(
    "unknown-units-want-nothing",
    "a unit of which nothing is known wants nothing",
    (Statements, "_show", _shown),
)


def _settled_once(original: Method) -> Method:
    def settle(self: StatementsPart, now: Any) -> Any:  # noqa: ANN401
        effects = original(self, now)
        if self._stated and all(each.is_taken for each in self._stated.values()):
            self._due = None
        return effects

    return settle


LEVELS.add(
    "stated-once",
    "a steward states what is wanted when the unit forms, and no change of it",
    around(StatementsPart, "settle", _settled_once),
)
LEVELS.add(
    "statements-not-held",
    "what other units state is not taken",
    (StatementsPart, "_learn", lambda self, statement, now: []),
)
LEVELS.add(
    "any-statement-counts",
    "an older statement takes the place of a later one",
    (held, "is_later", lambda one, other: True),
    (statements_part, "is_later", lambda one, other: True),
)
LEVELS.add(
    "active-too-early",
    "a subscription is active everywhere as soon as its cluster knows of it",
    (StatementsPart, "_is_covered", lambda self, unit, interest: True),
)


def _nothing_wanted(original: Method) -> Method:
    def content(self: StatementsPart, level: int) -> Any:  # noqa: ANN401
        wanted, links = original(self, level)
        return wanted[:1], links

    return content


LEVELS.add(
    "one-filter-stated",
    "a unit states the first of its filters alone",
    around(StatementsPart, "_content", _nothing_wanted),
)

# ── the way into a unit, and inside ───────────────────────────────────────────────────────────────

LEVELS.add(
    "nobody-inside",
    "who lets an event into a unit does not ask who wants it inside",
    (Entering, "_inside", lambda self, duty, link_class, topic, level: 0),
)


def _not_struck(original: Method) -> Method:
    def duty(self: Entering, duty: Duty, *args: Any) -> Duty:  # noqa: ANN401
        found: Duty = original(self, duty, *args)
        kept = found.destinations | from_level(duty.destinations, duty.entering)
        return found._replace(destinations=kept)

    return duty


LEVELS.add(
    "own-unit-not-struck-out",
    "an event that has come into a unit is still for that unit",
    around(Entering, "duty", _not_struck),
)


def _named_inside(original: Method) -> Method:
    def copy(self: MaskPlan, duty: Duty, node: int, served: int) -> Duty:
        found: Duty = original(self, duty, node, served)
        return found._replace(destinations=found.destinations | served | duty.destinations)

    return copy


LEVELS.add(
    "inside-named-outside",
    "over a gate an event takes along whom it is for inside the unit that it leaves",
    around(MaskPlan, "_copy", _named_inside),
)


def _untold(original: Method) -> Method:
    def update(self: Gates, *args: Any) -> Any:  # noqa: ANN401
        moved = original(self, *args)
        self.told = ()
        return moved

    return update


LEVELS.add(
    "gates-not-told",
    "members do not tell each other of their links to other units",
    around(Gates, "update", _untold),
)


def _never_lost(original: Method) -> Method:
    def update(self: Gates, links: Any, bucket_of: Any) -> Any:  # noqa: ANN401
        known = [(key[0], (uid, key[1])) for key, uids in self._uids.items() for uid in uids]
        return original(self, dict.fromkeys([*known, *links]), bucket_of)

    return update


LEVELS.add(
    "gates-kept",
    "a link to another unit that is lost is still taken",
    around(Gates, "update", _never_lost),
)

# ── units that change ─────────────────────────────────────────────────────────────────────────────

LEVELS.add(
    "named-at-once",
    "events name units as soon as one broker knows them",
    (naming, "REST_NS", 0),
)
LEVELS.add(
    "moved-forgotten",
    "nobody remembers in which unit those are who have left this one",
    (Naming, "now_at", lambda self, slots: 0),
)
