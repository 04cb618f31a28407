"""Broken rules of the hierarchy: what units state, and how events get into them."""

from __future__ import annotations

from typing import Any

from ges.gateways.gates import Gates
from ges.routing.entering import Entering
from ges.statements.statements_part import StatementsPart
from ges.units.contexts import Contexts
from ges.units.relocating import Relocating
from tests.mutants.mutant import Chapter, Method, around

LEVELS = Chapter(first="units")

# ── what units state ──────────────────────────────────────────────────────────────────────────────


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
    "active-too-early",
    "a subscription is active everywhere as soon as its cluster knows of it",
    (StatementsPart, "_is_covered", lambda self, unit, interest: True),
)


def _first_alone(original: Method) -> Method:
    def content(self: StatementsPart, level: int) -> Any:  # noqa: ANN401
        found = original(self, level)
        return found._replace(wanted=found.wanted[:1])

    return content


LEVELS.add(
    "one-filter-stated",
    "a unit states the first of its filters alone",
    around(StatementsPart, "_content", _first_alone),
)

# ── the way into a unit, and inside ───────────────────────────────────────────────────────────────

LEVELS.add(
    "nobody-inside",
    "who lets an event into a unit does not ask who wants it inside",
    (Entering, "_inside", lambda self, head, level: 0),
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

# ── whole units that join others ──────────────────────────────────────────────────────────────────

LEVELS.add(
    "parts-not-brought",
    "who comes to the new place of its unit does not bring the tables of what is in it",
    (Contexts, "settle_in", lambda self, tables, now: []),
)
LEVELS.add(
    "nobody-follows",
    "who hears that one of its unit is in the new place stays where it is",
    (Relocating, "on_relocated", lambda self, uid, relocated, now: []),
)
