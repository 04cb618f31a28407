"""Every order in which things may happen to a small ring, tried out one by one.

A scope (:mod:`sims.explore.scopes`) is a small ring at rest and a few *actions*: a join begins,
a broker dies, a link breaks. The explorer branches over the order in which pending deliveries and
actions happen, and over which timers run out early, up to a bound. After every step it checks what
must hold at any moment; where nothing is left to happen it lets time pass in a fair order and
requires the ideal ring.

Two ways to search:

* *complete*: at every state every channel may be next. Of orders that differ only in deliveries
  that commute, one stands for all (:mod:`sims.explore.partial_order`). For rings of few brokers.
* *delay-bounded* (M. Emmi, S. Qadeer, Z. Rakamarić, "Delay-bounded scheduling", 2011): deliveries
  come in the order of sending, except that up to D times the channel that is next is put off behind
  all others. Actions and early timers may still come at any point. Every schedule with at most D
  delays is tried. Background messages (:data:`sims.explore.world.BACKGROUND`) arrive at once.

States that were seen before are not gone on from. What is abstracted away, so that there are
finitely many: see :mod:`sims.explore.world` (time, packets, what the dead knew),
:meth:`ring.node.RingNode.normalise`, :mod:`sims.explore.canonical` and
:data:`sims.explore.snapshots.IGNORED`. Where all orders are too many, steps can be coarser:
:mod:`sims.explore.granularity`. A state is a number, and steps are remembered:
:mod:`sims.explore.packed_states`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from overlay.ids import nanos
from overlay.machine import Fact
from ring.config import LAN
from ring.facts import Found, Join
from ring.invariants import Snapshot, ring_findings, zave_findings
from ring.node import RingNode
from sims.errors import NoSuchScope, SimulationError
from sims.explore.checks import Checks
from sims.explore.granularity import Granularity, choices
from sims.explore.packed_states import PRIME, Block, Packed, PackedStates
from sims.explore.partial_order import PartialOrderReduction, circles
from sims.explore.report import Report, Step, Trail, in_words
from sims.explore.scopes import COMPLETE, LISTS, SCOPES, broker
from sims.explore.search import Search
from sims.explore.state import Channel, State
from sims.explore.steps import Steps
from sims.explore.world import UntimedWorld


@dataclass(frozen=True, slots=True)
class _Reduced:
    """A state that not all steps are tried from."""

    trail: Trail
    channels: frozenset[Channel]  #: of which the next is delivered
    leads: tuple[Packed, ...] = ()  #: to which states


@dataclass(frozen=True, slots=True)
class _Offers:
    """What may happen at a broker, and the number of its view."""

    deliveries: tuple[Step, ...]
    timers: tuple[Step, ...]
    view: int


class Explorer(Search[Packed, Step]):
    """Searches one scope. Deterministic: the same arguments give the same report.

    ``early``: timers that may run out early, by default as the scope says. ``reduce``: where all
    orders are asked for, try only one of those that differ in deliveries that commute
    (:mod:`sims.explore.partial_order`). ``lists``: without chords, and without the choice of the
    nearest contact (:data:`sims.explore.scopes.LISTS`). ``grain``: what one step delivers; the
    search by coarse steps is not reduced.

    Raises:
        NoSuchScope: there is no such scope, or it does not work with so few brokers.
    """

    def __init__(
        self,
        name: str,
        *,
        brokers: int | None = None,
        delays: int | None = None,
        early: int | None = None,
        reduce: bool = True,
        lists: bool = False,
        grain: Granularity = Granularity.PACKETS,
    ) -> None:
        if name not in SCOPES:
            raise NoSuchScope(f"no scenario {name!r}; there are {', '.join(SCOPES)}")
        self._scope = scope = SCOPES[name]
        n = scope.brokers if brokers is None else brokers
        self._members = members = n - scope.newcomers
        if not members >= scope.members or n > 12:
            least = scope.newcomers + scope.members
            raise NoSuchScope(f"{name} works with {least} to 12 brokers")
        self._delays = scope.delays if delays is None else delays
        self._complete = self._delays == COMPLETE
        self._grain = grain
        if grain is not Granularity.PACKETS and not self._complete:
            raise NoSuchScope("a grain other than packets goes with all orders: --delays -1")
        if not reduce and not self._complete:
            raise NoSuchScope("--unreduced goes with all orders: --delays -1")
        early = scope.early if early is None else early
        self._report = Report(name, n, self._delays, early, grain=grain, lists=lists)
        facts: list[Fact] = []  #: what the brokers said in one step
        #: The states in which nothing was left to happen, told apart as far as they are.
        self.ends: set[Hashable] = set()
        nodes = [broker(at, LISTS if lists else LAN) for at in range(n)]
        self._world = UntimedWorld(nodes, lambda _, fact: facts.append(fact))
        start = self._form(members)
        self._checks = Checks(self._world, scope, facts)
        order = sorted(range(members), key=lambda at: _ring_id(nodes[at]))
        self._place = [*order, *range(members, n)]  #: place in the ring -> number of the broker
        self._actions = scope.actions(members)
        if any(max(a.who, *a.others, 0) >= n for a in self._actions):
            raise NoSuchScope(f"{name} needs more than {n} brokers")
        self._world.number(start)
        start.todo = tuple(range(len(self._actions)))
        start.early = early
        self._cells = PackedStates(self._world, ordered=not self._complete)
        self._start = self._cells.pack(start)
        self._offered: dict[tuple[int, Block], _Offers] = {}
        step = grain if self._complete else None
        self._made = Steps(self._world, self._actions, self._place, step, facts.clear)
        self._views: dict[Snapshot | None, int] = {}  #: numbered
        self._checked: set[tuple[int, ...]] = set()  #: views, by their numbers
        self._reduction = (
            PartialOrderReduction(self._world, self._actions, self._place)
            if reduce and self._complete and grain is Granularity.PACKETS
            else None
        )
        self._report.reduced = self._reduction is not None
        self._reduced: dict[Packed, _Reduced] = {}  #: states that not all steps are tried from
        self._full: set[Packed] = set()  #: states that all steps are to be tried from
        self._looked_at: set[Packed] = set()
        self._verified = 0  #: what was known when all reduced states were last tried again

    # ── what a search asks ────────────────────────────────────────────────────────────────────

    def _is_new(self, here: Packed) -> bool:
        if here in self._looked_at:
            return False
        self._looked_at |= {here} if self._reduction else set()
        return True

    def _key(self, here: Packed) -> int:
        return here % PRIME

    def _rest(self, here: Packed) -> Sequence[str]:
        state = self._cells.unpack(here)
        self.ends.add(self._world.end(state))
        return self._checks.rest(state)

    def _led(self, here: Packed, leads: Sequence[Packed]) -> None:
        if here in self._reduced:
            self._reduced[here] = replace(self._reduced[here], leads=tuple(leads))

    def _delay(self, step: Step) -> bool:
        return step.delay

    def _in_words(self, here: Packed, step: Step) -> str:
        state, items = self._cells.unpack(here), self._world.items
        return in_words(step, state, items, self._actions, self._place, self._grain)

    # ── one state ─────────────────────────────────────────────────────────────────────────────

    def _steps(self, here: Packed, spent: int) -> list[Step]:
        common = self._cells.common(here)
        offers = [self._offers(here, at) for at in self._cells.brokers]
        if self._complete:
            steps = [step for offer in offers for step in offer.deliveries]
        else:
            steps = [Step(channel) for channel in common.order[:1]]
            if len(common.order) > 1 and spent < self._delays:
                steps.append(Step(common.order[0], delay=True))
        steps += [Step(action) for action in common.todo]
        if common.early:
            steps += [step for offer in offers for step in offer.timers]
        return steps

    def _offers(self, here: Packed, at: int) -> _Offers:
        """Return what may happen at a broker."""
        known = self._offered.get(key := (at, self._cells.block(here, at)))
        if known is None:
            state = self._cells.unpack(here)
            inbox = sorted(channel for channel in state.channels if channel.target == at)
            alive = state.fate[at] == "alive"
            timers = self._world.local(state, at).timers if alive else ()
            known = self._offered[key] = _Offers(
                tuple(Step(channel) for channel in choices(inbox, self._grain)),
                tuple(Step((at, timer)) for timer in timers),
                self._views.setdefault(self._checks.view(state, at), len(self._views)),
            )
        return known

    def _chosen(self, here: Packed, trail: Trail, spent: int) -> list[tuple[int, Step]]:
        chosen = self._enough(here, trail, spent)
        if self._reduction is not None:
            self._reduction.expect(self._cells.unpack(here), [step.what for _, step in chosen])
        return chosen

    def _enough(self, here: Packed, trail: Trail, spent: int) -> list[tuple[int, Step]]:
        """Return those steps that have to be tried, with their numbers among all."""
        every = list(enumerate(self._steps(here, spent)))
        if self._reduction is None or len(every) < 2 or here in self._full:
            return every
        channels = self._reduction.enough(self._cells.unpack(here))
        if channels is None or len(channels) == len(every):
            return every
        self._reduced[here] = _Reduced(trail, channels)
        return [(choice, step) for choice, step in every if step.what in channels]

    def _doubtful(self) -> list[tuple[Packed, Trail]]:
        reduction = self._reduction
        found: list[tuple[Packed, Trail]] = []
        if reduction is None:
            return found
        for here in circles({here: reduced.leads for here, reduced in self._reduced.items()}):
            self._full.add(here)
            found.append((here, self._reduced.pop(here).trail))
        while not found and self._verified != reduction.grown:
            self._verified = reduction.grown
            for here, reduced in list(self._reduced.items()):
                if not reduction.holds(self._cells.unpack(here), reduced.channels):
                    del self._reduced[here]
                    found.append((here, reduced.trail))
        return found

    def _take(self, here: Packed, step: Step) -> tuple[Packed, Sequence[str]]:
        """Return the state after a step, and what is wrong with it."""
        cells, what = self._cells, step.what
        if step.delay:
            first, *others = cells.common(here).order
            order = (*others, first)
            return cells.with_common(here, cells.common(here)._replace(order=order)), ()
        findings: list[str] = []
        confirmed: set[int] = set()
        moved = False
        for part, act in self._made.parts(what):
            here, said = cells.take(here, part, act, self._checks.step)
            findings += said.findings
            confirmed |= said.confirmed
            moved |= said.moved
        if confirmed or not isinstance(what, Channel):
            common = cells.common(here)
            if isinstance(what, int):
                todo = tuple(action for action in common.todo if action != what)
                common = common._replace(todo=todo)
            elif not isinstance(what, Channel):
                common = common._replace(early=common.early - 1)
            dead = {at for at in confirmed if cells.own(here, at).fate != "alive"}
            here = cells.with_common(here, common._replace(confirmed=common.confirmed | dead))
            findings += [f"b{at} lives and was declared dead" for at in confirmed - dead]
        return here, [*findings, *self._together(here)] if moved else findings

    def _together(self, here: Packed) -> list[str]:
        """Check what must hold at any moment of all brokers together."""
        views = tuple(self._offers(here, at).view for at in self._cells.brokers)
        if views in self._checked:
            return []
        self._checked.add(views)
        return zave_findings(self._world.views(self._cells.unpack(here)))

    def _is_rest(self, here: Packed) -> bool:
        return not self._cells.common(here).todo and not any(
            self._offers(here, at).deliveries for at in self._cells.brokers
        )

    def _form(self, members: int) -> State:
        """Form the ring by joins, one after the other."""
        world, state = self._world, self._world.begin()
        for at in range(members):
            state.fate[at] = "alive"
            contact = world.nodes[0].peer.url
            world.give(state, at, Found() if at == 0 else Join((contact,)))
            world.pass_time(state, world.now + nanos(20))
        findings = ring_findings(world.views(state))
        if findings:
            raise SimulationError(f"the ring has not formed: {findings[0]}")
        return state


def _ring_id(node: RingNode) -> int:
    assert node.member is not None
    return node.member.ring_id
