"""Every order in which things may happen to a few brokers whose units change, one by one.

The search (:mod:`sims.explore.search`) is by all orders of what is under way, or by those
that differ from the order of sending by a few delays. The clock goes on where nothing is under way,
and early up to a bound. All of that lasts for a few seconds of virtual time
(:attr:`~sims.explore.unit_scopes.UnitScope.branch_ns`); what is left then happens in a fair order,
until the overlay must be in order again: addresses are unique, tables are equal, no unit is above
its limit, all hold the same statements, and subscriptions are active everywhere.

At each state it is checked, too, that no broker keeps an event from a subscription that is active.
"""

from __future__ import annotations

from collections.abc import Sequence

from overlay.ids import Nanos, nanos
from sims.errors import NoSuchScope, SimulationError
from sims.explore.granularity import Granularity
from sims.explore.report import Report
from sims.explore.search import Search
from sims.explore.unit_machine import Enter, Subscribed
from sims.explore.unit_scopes import INTEREST, TOPIC, UNIT_SCOPES, unit_machines
from sims.explore.unit_world import ABSENT, Ends, Overlay, UnitWorld
from sims.verdicts.units import unit_findings

FORMED_NS = nanos(20.0)  #: after each broker that has joined, and after the last one
MAX_STORM = 3_000  #: deliveries and timers without a pause after which it is held to go on for ever
COMPLETE = -1

#: A channel, a broker that gets all that is under way to it, an action, or None: the clock.
What = Ends | tuple[int] | int | None
Choice = tuple[What, bool]  #: and whether the channel is put off


class UnitExplorer(Search[Overlay, Choice]):
    """Searches one scope. Deterministic: the same arguments give the same report.

    Raises:
        NoSuchScope: there is no such scope.
        SimulationError: its units do not form.
    """

    def __init__(
        self,
        name: str,
        *,
        delays: int | None = None,
        early: int | None = None,
        grain: Granularity = Granularity.PACKETS,
    ) -> None:
        if name not in UNIT_SCOPES:
            raise NoSuchScope(f"no scenario {name!r}; there are {', '.join(UNIT_SCOPES)}")
        self._scope = scope = UNIT_SCOPES[name]
        self._delays = scope.delays if delays is None else delays
        early = scope.early if early is None else early
        if grain is not Granularity.PACKETS and self._delays != COMPLETE:
            raise NoSuchScope("a grain other than packets goes with all orders: --delays -1")
        if grain is Granularity.READS:
            raise NoSuchScope(f"{name} is explored by packets or turns")
        self._in_turns = grain is Granularity.TURNS
        self._world = UnitWorld(unit_machines(scope))
        self._report = Report(
            name, len(scope.places), self._delays, early, grain=grain, is_fixed=True
        )
        self._judged: dict[Overlay, list[str]] = {}
        self._start = self._form(early)
        self._branch_until = self._start.now + scope.branch_ns

    # ── what a search asks ────────────────────────────────────────────────────────────────────

    def _delay(self, step: Choice) -> bool:
        return step[1]

    def _is_rest(self, here: Overlay) -> bool:
        return here.now >= self._branch_until

    def _steps(self, here: Overlay, spent: int) -> list[Choice]:
        if self._is_rest(here):
            return []
        channels = [ends for ends, _ in here.channels]
        found: list[Choice] = []
        if self._in_turns:
            found += [((at,), False) for at in sorted({target for _, target in channels})]
        elif self._delays == COMPLETE:
            found += [(ends, False) for ends in channels]
        elif channels:
            found.append((channels[0], False))
            if len(channels) > 1 and spent < self._delays:
                found.append((channels[0], True))
        found += [(action, False) for action in here.todo]
        if not channels or here.early:
            found.append((None, False))
        return found

    def _take(self, here: Overlay, step: Choice) -> tuple[Overlay, Sequence[str]]:
        there = self._after(here, step)
        return there, self._world.misses(there, TOPIC.encode())

    def _after(self, here: Overlay, choice: Choice) -> Overlay:
        what, is_put_off = choice
        if is_put_off:
            first, *others = here.channels
            return here._replace(channels=(*others, first))
        if isinstance(what, int):
            there = self._act(here, what)
        elif what is not None and len(what) == 1:
            there = self._world.deliver_all(here, what[0])
        elif what is not None:
            there = self._world.deliver(here, what)
        else:
            there = self._world.pass_time(here)
            if here.channels:
                there = there._replace(early=there.early - 1)
        if self._delays == COMPLETE:
            there = there._replace(channels=tuple(sorted(there.channels)))
        return there

    def _act(self, here: Overlay, number: int) -> Overlay:
        action, world = self._scope.actions[number], self._world
        here = here._replace(todo=tuple(each for each in here.todo if each != number))
        if action.verb == "join":
            return self._enter(here, action.who)
        if action.verb == "subscribe":
            is_there = here.brokers[action.who] != ABSENT
            return world.give(here, action.who, Subscribed(INTEREST)) if is_there else here
        return world.crash(here, action.who, loses=action.verb == "lose")

    def _enter(self, here: Overlay, who: int) -> Overlay:
        alive = (at for at, number in enumerate(here.brokers) if number != ABSENT)
        others = tuple(self._world.machines[at].own for at in alive)
        return self._world.enter(here, who, Enter(others))

    def _fairly(self, here: Overlay, until: Nanos) -> Overlay:
        """Let all happen in the order of sending, and time pass."""
        storm = 0
        while True:
            while here.channels:
                here = self._world.deliver(here, here.channels[0][0])
                storm = self._counted(storm)
            if here.todo:
                here = self._act(here, here.todo[0])
                continue
            due = self._world.next_deadline(here)
            if due is None or due > until:
                return here._replace(now=until)
            storm = 0 if due > here.now else self._counted(storm)
            here = self._world.pass_time(here)

    @staticmethod
    def _counted(storm: int) -> int:
        if storm == MAX_STORM:
            raise SimulationError("brokers talk, or their timers are due, without end")
        return storm + 1

    def _rest(self, here: Overlay) -> list[str]:
        """Return what is not in order when all that is under way has come and time has passed."""
        alike = here._replace(early=0)
        if alike not in self._judged:
            self._world.thaw(here)
            try:
                then = self._fairly(here, here.now + self._scope.rest_ns)
                self._judged[alike] = self._judge(then)
            except SimulationError as error:
                self._judged[alike] = [str(error)]
            finally:
                self._world.freeze()
        return self._judged[alike]

    def _judge(self, rest: Overlay) -> list[str]:
        machines = self._world.alive(rest)
        found = unit_findings(((each.member, each.units) for each in machines), self._scope.limit)
        found += self._world.misses(rest, TOPIC.encode())
        for each in machines:
            name = each.own.peer.url[10:12]
            if each.statements.unknown:
                found.append(f"{name} knows nothing of some unit")
            if any(level < 4 for level in each.active.values()):
                found.append(f"a subscription at {name} is not active everywhere")
            if each.profiles.exchange.asks_by_key.keys() - each.active.keys():
                found.append(f"a subscription at {name} is not active")
        return found

    def _form(self, early: int) -> Overlay:
        """Let the members join one after the other, and their units form."""
        here, lead = self._world.begin(0, 0), self._scope.lead_ns
        last = self._scope.members - 1
        for at in range(self._scope.members):
            here = self._enter(here, at)
            is_early = lead is not None and at == last
            here = self._fairly(here, here.now + (lead if is_early and lead else FORMED_NS))
        if lead is None:
            here = self._fairly(here, here.now + FORMED_NS)
            if found := self._judge(here):
                raise SimulationError(f"units have not formed: {found[0]}")
        todo = tuple(range(len(self._scope.actions)))
        return self._world.number(here)._replace(todo=todo, early=early)

    def _in_words(self, here: Overlay, step: Choice) -> str:
        what, is_put_off = step
        if isinstance(what, int):
            return str(self._scope.actions[what])
        if what is None:
            then = self._world.next_deadline(here) or here.now
            return f"{max(0, then - here.now) / 10**9:.3f} s pass"
        if len(what) == 1:
            ends = [ends for ends, _ in here.channels if ends[1] == what[0]]
            told = "; ".join(self._world.in_words(here, each) for each in ends)
            return f"b{what[0]} gets all that is under way: {told}"
        return f"{self._world.in_words(here, what)} {'is put off' if is_put_off else 'arrives'}"
