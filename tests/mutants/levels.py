"""Broken rules of the hierarchy: what units state, and how events get into them."""

from __future__ import annotations

import heapq
from typing import Any

from ges.delivery import audience
from ges.delivery.realms import Realms
from ges.delivery.sharing import Sharing
from ges.gateways import losses
from ges.gateways.gates import Gates
from ges.gateways.graph import ALL_NODES
from ges.gateways.losses import Severity
from ges.gateways.naming import Naming
from ges.gateways.paths import NOBODY, Paths
from ges.matching.asks import ask_for
from ges.routing import entering, mask_plan, router
from ges.routing.entering import Entering
from ges.routing.reach import Reach
from ges.stack import Stack
from ges.statements import statements_part
from ges.statements.content import tree_of
from ges.statements.held import Statements, Unit
from ges.statements.statements_part import StatementsPart
from ges.telling.shared import SharedTable
from ges.units.address import LEVELS as LEVELS_OF_ALL
from ges.units.contexts import Contexts
from ges.units.relocating import Relocating
from ges.units.units_part import UnitsPart
from ges.wire.asked import Ask
from ges.wire.matter import Matter
from ges.wire.statement_messages import SecureHealth, UnitStatement
from overlay.ids import Nanos
from tests.mutants.mutant import Chapter, Method, around, nothing

LEVELS = Chapter(first="unit")

# ── what units state ──────────────────────────────────────────────────────────────────────────────


def _settled_once(original: Method) -> Method:
    def settle(self: StatementsPart, changed: Any, now: Any) -> Any:  # noqa: ANN401
        effects = original(self, changed, now)
        if self._stated and all(each.is_taken for each in self._stated.values()):
            self._due = None
        return effects

    return settle


LEVELS.add(
    "stated-once",
    "a steward states what is wanted when the unit forms, and no change of it",
    around(StatementsPart, "settle", _settled_once),
)


def _no_statements(original: Method) -> Method:
    def on_row(self: SharedTable[Any], row: Any, uid: str, now: Nanos) -> Any:  # noqa: ANN401
        return (True, []) if isinstance(row, UnitStatement) else original(self, row, uid, now)

    return on_row


LEVELS.add(
    "statements-not-held",
    "what other units state is not taken",
    around(SharedTable, "_on_row", _no_statements),
)
LEVELS.add(
    "active-too-early",
    "a subscription is active everywhere as soon as its cluster knows of it",
    (StatementsPart, "_is_covered", lambda self, unit, ask: True),
)


def _first_alone(original: Method) -> Method:
    def content(self: StatementsPart, level: int, **more: bool) -> Any:  # noqa: ANN401
        found = original(self, level, **more)
        return found._replace(wanted=found.wanted[:1])

    return content


LEVELS.add(
    "one-filter-stated",
    "a unit states the first of its filters alone",
    around(StatementsPart, "_content", _first_alone),
)

LEVELS.add(
    "active-before-taken",
    "a subscription is active in a context before all there have taken the statement",
    (StatementsPart, "_is_covered", lambda self, unit, ask: _is_stated(self, unit, ask)),
)


def _is_stated(part: StatementsPart, unit: Unit, ask: Ask) -> bool:
    held = part.statements.get(unit)
    return held is not None and next(tree_of(held.asks).covering(ask), None) is not None


def _sure_of_units(self: Statements, unit: Unit) -> None:
    held = self.get(unit)
    key = f"{unit[1].lo}-{unit[1].hi}"
    self._indices[unit[0]].replace(key, held.asks if held is not None else ())


LEVELS.add(
    "units-not-behind",
    "a unit of which nothing is known counts as one that wants nothing",
    (Statements, "_show", _sure_of_units),
)
LEVELS.add(
    "doubt-not-stated",
    "a steward states nothing for members or units of which it knows nothing",
    (statements_part, "everything", lambda: ask_for("nobody/wants/that")),
)


def _sound_everywhere(self: StatementsPart, level: int) -> SecureHealth:
    return SecureHealth.WHOLE


LEVELS.add(
    "health-not-stated",
    "a unit says that its secure part is whole, whatever it is",
    (StatementsPart, "health", _sound_everywhere),
)
LEVELS.add(
    "health-ignored",
    "a source sends secure events into units whose secure part is broken",
    (Reach, "_beyond_units", lambda self, wanted, reached: None),
)
LEVELS.add(
    "crowds-not-stated",
    "other units are not told that brokers wait for slots",
    (Statements, "is_crowded", property(lambda self: False)),
)
LEVELS.add(
    "crowds-ignored",
    "events name brokers while brokers of the cluster wait for slots",
    (UnitsPart, "is_crowded", property(lambda self: False)),
    (Statements, "is_crowded", property(lambda self: False)),
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


def _uncleared(mask: int, level: int) -> int:
    return mask


LEVELS.add(
    "masks-not-cleared",
    "what crosses into another unit keeps what was named and passed inside the one before",
    (mask_plan, "from_level", _uncleared),
    (entering, "from_level", _uncleared),
)


def _unit_as_another(original: Method) -> Method:
    def follow(self: Naming, *args: Any) -> Any:  # noqa: ANN401
        is_renamed = original(self, *args)
        self.known |= self.own_units
        self.own_units, self.own = 0, self.own & (1 << 64) - 1
        return is_renamed

    return follow


LEVELS.add(
    "own-unit-not-struck-out",
    "an event that has come into a unit is still for that unit",
    around(Naming, "follow", _unit_as_another),
)


def _no_rest(original: Method) -> Method:
    def follow(self: Naming, *args: Any) -> Any:  # noqa: ANN401
        is_renamed = original(self, *args)
        self._rest_at, self.is_sure = None, True
        return is_renamed

    return follow


LEVELS.add(
    "names-while-units-change",
    "events name brokers and units at once after these have changed",
    around(Naming, "follow", _no_rest),
)


def _for_all_levels(original: Method) -> Method:
    def mask_of(self: Statements, matter: Matter) -> Any:  # noqa: ANN401
        return original(self, matter._replace(below=LEVELS_OF_ALL))

    return mask_of


LEVELS.add(
    "realms-ignored-at-source",
    "an event of a realm goes to all units that want it",
    around(Statements, "mask_of", _for_all_levels),
    (router, "within", lambda mask, realm: mask),
)


def _within_its_realm(original: Method) -> Method:
    return lambda self, head: min(original(self, head), head.realm)


LEVELS.add(
    "realms-ignored-at-edge",
    "an event of a realm is delivered wherever it comes",
    around(Realms, "common", _within_its_realm),
)
LEVELS.add(
    "realms-of-clients-ignored",
    "a subscription that is kept near gets what comes from anywhere",
    (audience, "from_afar", lambda found, common: found),
)


def _first_in_each(self: Sharing, head: Any, key: int, common: int) -> bool:  # noqa: ANN401
    return self.choosing.is_first(head.link_class, key)


LEVELS.add(
    "groups-served-in-each-unit",
    "a queue group that a source gave to another unit is served here as well",
    (Sharing, "_is_first", _first_in_each),
)
LEVELS.add(
    "old-addresses-not-corrected",
    "a broker does not say that a named client has moved",
    (Stack, "_say_wrong", nothing),
)


def _never_forgotten(original: Method) -> Method:
    def update(self: Gates, links: Any, *more: Any) -> Any:  # noqa: ANN401
        before = dict(self._uids)
        moved = original(self, links, *more)
        for key, uids in before.items():
            self._uids[key] = tuple(dict.fromkeys((*uids, *self._uids.get(key, ()))))
        return moved

    return update


LEVELS.add(
    "gates-not-forgotten",
    "a gate to another unit is used when its link is gone",
    around(Gates, "update", _never_forgotten),
)


def _any_direction(self: Paths, graph: Any, source: int, without: int = 0) -> None:  # noqa: ANN401
    """All that a path may pass, in whatever order of levels."""
    self.source, self.next_hop = source, [NOBODY] * ALL_NODES
    self._weights = {}
    queue = [(0, source, NOBODY)]
    while queue:
        weight, node, first = heapq.heappop(queue)
        if node in self._weights:
            continue
        self._weights[node], self.next_hop[node] = weight, first
        for other, more in graph.near(node).items():
            if other not in self._weights and not without >> other & 1:
                heapq.heappush(queue, (weight + more, other, other if first < 0 else first))
    self.reached = sum(1 << node for node in self._weights)


LEVELS.add(
    "any-direction",
    "a path inside a unit may lead out of it and back",
    (Paths, "__init__", _any_direction),
)
LEVELS.add(
    "losses-by-count",
    "two units without links of their own are held to be cut off, whatever ways there are",
    (
        losses,
        "classify",
        lambda links, a, b: Severity.HARMLESS if links.get((a, b)) else Severity.PARTITION,
    ),
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
