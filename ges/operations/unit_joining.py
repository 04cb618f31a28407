"""Have a whole unit of a live overlay join another context, and see that it is there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import trio

from ges.client import Client
from ges.errors import ConnectionLost, UnitNotJoined
from ges.operations.attached import Operator
from ges.operations.unit_tree import Unit, unit_tree
from ges.operations.walk import walk_ring
from ges.units.unit_names import LEVEL_NAMES, is_name, listed
from ges.wire.operator_messages import JoinState, UnitJoin, UnitJoinQuestion
from ges.wire.status import Status
from ges.wire.unit_messages import TOP_LEVEL
from overlay.address import Address, parse_url
from overlay.errors import ConfigError
from overlay.wording import counted, printable

LOOK_SECONDS = 0.2  #: between two looks
ORDER_SECONDS = 10.0  #: units that change get so long to be in order

_ADDRESS = re.compile(r"\d{1,2}(\.\d{1,2}){0,2}")


@dataclass(frozen=True, slots=True)
class Joined:
    """What has become of the unit."""

    before: Unit
    after: Unit
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Which unit, and where it is to go."""

    unit: Unit
    context: Unit


async def join(operator: Operator, unit: str, context: str, wait_s: float) -> Joined:
    """Have a unit join a context, each named or by address; wait until it is there.

    Raises:
        ConfigError: there is no such unit or context, or their levels do not fit.
        UnitNotJoined: it has no room there, or it is not there after ``wait_s`` seconds.
        OperationRefused: this operator may not, or the unit's steward has a reason.
        ConnectionLost: the first broker does not answer.
    """
    began = trio.current_time()
    deadline = began + wait_s
    tree = await _in_order(operator, min(deadline, began + ORDER_SECONDS))
    plan = plan_join(tree, unit, context)
    url = _url_of(operator, plan.unit.steward)
    async with operator.attached(url, operator.timeout_s) as client:
        await client.join_unit(_question(plan))
        with trio.move_on_at(deadline):
            after = await _watch(operator, client, plan)
            return Joined(plan.unit, after, trio.current_time() - began)
    raise UnitNotJoined(await _how_far(operator, plan, wait_s))


# ── what is to be done ────────────────────────────────────────────────────────────────────────


async def _look(operator: Operator) -> tuple[list[Unit], list[str]]:
    walk = await walk_ring(
        operator.urls,
        identity=operator.identity,
        overlay=operator.overlay,
        timeout_s=operator.timeout_s,
        on_waiting=operator.on_waiting,
    )
    tree, found = unit_tree(walk.brokers)
    if walk.is_partial:
        found = [*walk.silent, *([walk.ends_early] if walk.ends_early else []), *found]
    return tree, found


async def _in_order(operator: Operator, deadline: float) -> list[Unit]:
    """Return what there is, once it is in order: what changes already is not to be moved."""
    while True:
        tree, found = await _look(operator)
        if not found:
            return tree
        if trio.current_time() >= deadline:
            raise UnitNotJoined(
                f"the units are not in order: {found[0]}; try again when 'chordal units --check' "
                "finds nothing"
            )
        await trio.sleep(LOOK_SECONDS)


def plan_join(tree: list[Unit], unit: str, context: str) -> Plan:
    """Return which unit is to join which context, each given by name or address.

    Raises:
        ConfigError: there is no such unit or context, or their levels do not fit.
        UnitNotJoined: the context is full.
    """
    what, where = _find(tree, unit), _find(tree, context)
    is_a, holds = LEVEL_NAMES[what.level], LEVEL_NAMES[where.level]
    if what.level == TOP_LEVEL:
        raise ConfigError(
            f"{_called(what)} is a {is_a}, and there is nothing above it that it could join; give "
            "a cluster or a super-cluster"
        )
    if where.level != what.level + 1:
        raise ConfigError(
            f"{_called(what)} is a {is_a} and {_called(where)} a {holds}; give --into a "
            f"{LEVEL_NAMES[what.level + 1]}"
        )
    if what.path[:-1] == where.path:
        raise ConfigError(f"{_called(what)} is in {_called(where)} already; give another --into")
    limit = where.steward.unit_limit
    if len(where.units) >= limit:
        raise UnitNotJoined(
            f"{_called(where)} is full: it has {counted(len(where.units), is_a)}, the most that it "
            "may have; give --into another one"
        )
    return Plan(what, where)


def _find(tree: list[Unit], text: str) -> Unit:
    units = [unit for top in tree for unit in top.walk()]
    by_address = {unit.name: unit for unit in units}
    by_name = {unit.given_name: unit for unit in units if unit.given_name}
    found = by_address.get(text) or by_name.get(text)
    if found is not None:
        return found
    shown = printable(repr(text[:200]))
    if not _ADDRESS.fullmatch(text) and not all(map(is_name, text.split("/"))):
        raise ConfigError(f"{shown} names no unit; write its address or name, as 0.1 or eu/fra")
    names = listed(unit.given_name or unit.name for unit in units if unit.level > 1)
    raise ConfigError(
        f"there is no unit {shown}; 'chordal units' shows all, and of those above clusters there "
        f"are {names}"
    )


def _question(plan: Plan) -> UnitJoin:
    context, steward = plan.context, plan.context.steward
    assert steward.member is not None, "it stands in the unit"
    brokers = len(plan.unit.brokers)
    arc = context.arc
    return UnitJoin(plan.unit.path, arc.lo, arc.hi, steward.member, _called(context)[:200], brokers)


def _url_of(operator: Operator, status: Status) -> str:
    """Return where to attach to a broker, over TLS where the operator does."""
    tls, known = parse_url(operator.urls.split(",")[0]).tls, parse_url(status.url)
    return Address(known.host, known.port, tls).url


def _called(unit: Unit) -> str:
    return unit.given_name or f"{LEVEL_NAMES[unit.level]} {unit.name}"


# ── what has become of it ─────────────────────────────────────────────────────────────────────


async def _watch(operator: Operator, client: Client, plan: Plan) -> Unit:
    """Look until the unit is there, and all units are in order."""
    state: JoinState | None = JoinState.ASKS
    while True:
        await trio.sleep(LOOK_SECONDS)
        if state is not None:
            try:
                state = (await client.join_unit(UnitJoinQuestion())).state
            except ConnectionLost:
                state = None  # the others go on without it
        if state is not JoinState.ASKS:
            with suppress(ConnectionLost):  # a broker that moves answers again in a moment
                tree, found = await _look(operator)
                after = None if found else _arrived(tree, plan)
                if after is not None:
                    return after


def _arrived(tree: list[Unit], plan: Plan) -> Unit | None:
    """Return the unit that all of its brokers that are left stand in, if it is in its context."""
    moved = _uids(plan.unit.brokers)
    context = _uids(plan.context.brokers)
    units = [unit for top in tree for unit in top.walk() if unit.level == plan.unit.level]
    homes = [unit for unit in units if moved & _uids(unit.brokers)]
    if len(homes) != 1:
        return None
    beside = [unit for unit in units if unit.path[:-1] == homes[0].path[:-1]]
    is_there = any(context & _uids(unit.brokers) for unit in beside if unit is not homes[0])
    return homes[0] if is_there else None


async def _how_far(operator: Operator, plan: Plan, wait_s: float) -> str:
    tree, found = await _look(operator)
    moved = _uids(plan.unit.brokers)
    context = next(
        (u for top in tree for u in top.walk() if u.path == plan.context.path), plan.context
    )
    there = len(moved & _uids(context.brokers))
    what, where = _called(plan.unit), _called(plan.context)
    if not there:
        return (
            f"{what} stands where it stood after {wait_s:g} s; if it has begun to move it goes on: "
            "see 'chordal units --check', or give --wait more seconds"
        )
    after = f"{there} of {counted(len(moved), 'broker')} stand in {where} after {wait_s:g} s"
    problem = f"; {found[0]}" if found else ""
    return f"{what}: {after}{problem}; the rest follow by themselves: see 'chordal units --check'"


def _uids(brokers: Iterable[Status]) -> set[str]:
    return {status.uid for status in brokers}


def described(unit: Unit) -> str:
    """Return a unit for people: its address, and its name if it has one."""
    return f"{unit.name} ({unit.given_name})" if unit.given_name else unit.name
