"""Every order in which things may happen to a small ring, tried out one by one.

A scenario (:mod:`sims.scopes`) is a small ring at rest and a few *actions*: a join begins, a broker
dies, a link breaks.
The explorer branches over the order in which pending deliveries and actions happen, and over which
timers run out early, up to a bound. After every step it checks what must hold at any moment; where
nothing is left to happen it lets time pass in a fair order and requires the ideal ring.

Two ways to search:

* *complete*: at every state every channel may be next. Of orders that differ only in deliveries
  that commute, one stands for all (:mod:`sims.reduction`). For rings of few brokers.
* *delay-bounded* (M. Emmi, S. Qadeer, Z. Rakamarić, "Delay-bounded scheduling", 2011): deliveries
  come in the order of sending, except that up to D times the channel that is next is put off behind
  all others. Actions and early timers may still come at any point. Every schedule with at most D
  delays is tried. Background messages (:data:`sims.untimed.BACKGROUND`) arrive at once.

States that were seen before are not gone on from. What is abstracted away, so that there are
finitely many: see :mod:`sims.untimed` (time, packets), :mod:`sims.canonical` and
:data:`sims.freeze.IGNORED`. Where all orders are too many, steps can be coarser: :mod:`sims.grain`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from overlay.ids import Nanos, nanos
from overlay.machine import Fact
from ring.config import LAN
from ring.facts import Confirmed, Found, Join, Leave, NeighboursChanged
from ring.invariants import local_findings, ring_findings, symmetry_findings, zave_findings
from ring.node import RingNode
from sims.errors import NoSuchScope, SimulationError
from sims.exploration import Report, Step, Trail, in_words
from sims.grain import Grain, arrive, at_once, choices
from sims.reactions import Event
from sims.reduction import Reduction, circles
from sims.scopes import COMPLETE, LISTS, SCENARIOS, Action, broker
from sims.trial import event_of
from sims.untimed import Untimed
from sims.untimed_state import Kind, State

REST_LIMIT_NS = nanos(120)
CALM_STEPS = 6  #: periods for which the ring must stay as it should be


@dataclass(frozen=True, slots=True)
class _Reduced:
    """A state that not all steps are tried from."""

    state: State
    trail: Trail
    channels: frozenset[Kind]  #: of which the next is delivered
    leads: tuple[int, ...] = ()  #: to which states


Place = tuple[State, Trail]  #: a state, and how it was reached


class Explorer:
    """Searches one scenario. Deterministic: the same arguments give the same report.

    ``early``: timers that may run out early, by default as the scenario says.
    ``reduce``: where all orders are asked for, try only one of those that differ in deliveries that
    commute (:mod:`sims.reduction`). ``lists``: without chords, and without the choice of the
    nearest contact (:data:`sims.scopes.LISTS`). ``grain``: what one step delivers; the search by
    coarse steps is not reduced.

    Raises:
        NoSuchScope: there is no such scenario, or it does not work with so few brokers.
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
        grain: Grain = Grain.PACKETS,
    ) -> None:
        if name not in SCENARIOS:
            raise NoSuchScope(f"no scenario {name!r}; there are {', '.join(SCENARIOS)}")
        self._scenario = scenario = SCENARIOS[name]
        n = scenario.brokers if brokers is None else brokers
        self._members = members = n - scenario.newcomers
        if not members >= scenario.members or n > 12:
            least = scenario.newcomers + scenario.members
            raise NoSuchScope(f"{name} works with {least} to 12 brokers")
        self._delays = scenario.delays if delays is None else delays
        self._complete = self._delays == COMPLETE
        self._grain = grain
        if grain is not Grain.PACKETS and not self._complete:
            raise NoSuchScope("a grain other than packets goes with all orders: --delays -1")
        early = scenario.early if early is None else early
        self._report = Report(name, n, self._delays, early, grain=grain, lists=lists)
        self._facts: list[tuple[int, Fact]] = []  #: what the brokers said in one step
        #: The states in which nothing was left to happen, told apart as far as they are.
        self.ends: set[Hashable] = set()
        nodes = [broker(at, LISTS if lists else LAN) for at in range(n)]
        self._world = Untimed(nodes, lambda at, fact: self._facts.append((at, fact)))
        self._start = self._form(members)
        self._moment: Nanos = self._world.now
        order = sorted(range(members), key=lambda at: _ring_id(nodes[at]))
        self._place = [*order, *range(members, n)]  #: place in the ring -> number of the broker
        self._actions = scenario.actions(members)
        if any(max(a.who, *a.others, 0) >= n for a in self._actions):
            raise NoSuchScope(f"{name} needs more than {n} brokers")
        self._world.number(self._start)
        self._start.todo = tuple(range(len(self._actions)))
        self._start.early = early
        self._checked: set[tuple[int, ...]] = set()
        self._reduction = (
            Reduction(self._world, self._actions, self._place, accurate=scenario.accurate)
            if reduce and self._complete and grain is Grain.PACKETS
            else None
        )
        self._report.reduced = self._reduction is not None
        self._reduced: dict[int, _Reduced] = {}  #: states that not all steps are tried from
        self._full: set[int] = set()  #: states that all steps are to be tried from
        self._looked_at: set[int] = set()
        self._verified = 0  #: what was known when all reduced states were last tried again

    # ── searching ─────────────────────────────────────────────────────────────────────────────

    def search(self, limit: int = 1_000_000) -> Report:
        """Go through all states within the bound, at most ``limit`` of them."""
        report = self._report
        seen = {self._key(self._start)}
        #: by delays spent: those with fewest first, so that no state is met again with more to go
        waiting: list[list[Place]] = [[(self._start, Trail(None, -1))]]
        waiting += [[] for _ in range(max(0, self._delays))]
        for spent, bucket in enumerate(waiting):
            while bucket:
                state, trail = bucket.pop()
                here = self._key(state)
                if here in self._looked_at:
                    report.again += 1
                else:
                    report.states += 1
                    self._looked_at |= {here} if self._reduction else set()
                report.depth = max(report.depth, trail.depth)
                if self._is_rest(state):
                    report.rests += 1
                    self.ends.add(self._world.end(state))
                    findings = self._rest(state)
                    if findings:
                        return self._broken(findings, trail)
                leads = []
                for choice, step in self._chosen(state, trail, spent):
                    child = state.copy()
                    findings = self._take(child, step)
                    report.steps += 1
                    onward = Trail(trail, choice)
                    if findings:
                        return self._broken(findings, onward)
                    key = self._key(child)
                    leads.append(key)
                    if key in seen:
                        report.seen_before += 1
                    else:
                        seen.add(key)
                        waiting[spent + step.delay].append((child, onward))
                if here in self._reduced:
                    self._reduced[here] = replace(self._reduced[here], leads=tuple(leads))
                if report.states >= limit:
                    report.complete = False
                    return report
                if not bucket:
                    bucket += self._doubtful()
        return report

    def replay(self, chosen: Sequence[int]) -> Report:
        """Take the given choices and no others; the report tells the story."""
        state, spent, trail = self._start.copy(), 0, Trail(None, -1)
        findings: list[str] = []
        for choice in chosen:
            steps = self._steps(state, spent)
            if not 0 <= choice < len(steps):
                raise NoSuchScope(f"step {trail.depth + 1} has {len(steps)} choices")
            findings = self._take(state, steps[choice])
            spent += steps[choice].delay
            trail = Trail(trail, choice)
            if findings:
                break
        if not findings and self._is_rest(state):
            findings = self._rest(state)
        return self._broken(findings, trail)

    def _broken(self, findings: list[str], trail: Trail) -> Report:
        report = self._report
        report.complete = False
        report.findings, report.choices = tuple(findings), trail.choices()
        state, spent, story = self._start.copy(), 0, []
        for choice in report.choices:
            step = self._steps(state, spent)[choice]
            items, grain = self._world.items, self._grain
            story.append(in_words(step, state, items, self._actions, self._place, grain))
            self._take(state, step)
            spent += step.delay
        report.story = tuple(story)
        return report

    # ── one state ─────────────────────────────────────────────────────────────────────────────

    def _key(self, state: State) -> int:
        return hash(state.key(ordered=not self._complete))

    def _steps(self, state: State, spent: int) -> list[Step]:
        channels: Sequence[Kind]
        if self._complete:
            steps = [Step(channel) for channel in choices(state, self._grain)]
        else:
            channels = list(state.channels)
            steps = [Step(channel) for channel in channels[:1]]
            if len(channels) > 1 and spent < self._delays:
                steps.append(Step(channels[0], delay=True))
        steps += [Step(action) for action in state.todo]
        if state.early:
            steps += [
                Step((at, timer))
                for at, fate in enumerate(state.fate)
                if fate == "alive"
                for timer in self._world.local(state, at).timers
            ]
        return steps

    def _chosen(self, state: State, trail: Trail, spent: int) -> list[tuple[int, Step]]:
        """Return those steps that have to be tried, with their numbers among all."""
        every = list(enumerate(self._steps(state, spent)))
        here = self._key(state)
        if self._reduction is None or len(every) < 2 or here in self._full:
            return every
        channels = self._reduction.enough(state)
        if channels is None or len(channels) == len(every):
            return every
        self._reduced[here] = _Reduced(state, trail, channels)
        return [(choice, step) for choice, step in every if step.what in channels]

    def _doubtful(self) -> list[Place]:
        """Return those states that have to be gone on from anew, with what is known now."""
        reduction = self._reduction
        found: list[Place] = []
        if reduction is None:
            return found
        for here in circles({here: reduced.leads for here, reduced in self._reduced.items()}):
            self._full.add(here)
            reduced = self._reduced.pop(here)
            found.append((reduced.state, reduced.trail))
        while not found and self._verified != reduction.grown:
            self._verified = reduction.grown
            for here, reduced in list(self._reduced.items()):
                if not reduction.holds(reduced.state, reduced.channels):
                    del self._reduced[here]
                    found.append((reduced.state, reduced.trail))
        return found

    def _take(self, state: State, step: Step) -> list[str]:
        world, what = self._world, step.what
        self._facts.clear()
        before = list(state.brokers)
        self._note(state, step)
        if isinstance(what, Kind):
            if step.delay:
                state.channels[what] = state.channels.pop(what)
                return []
            arrive(world, state, what, self._grain)
        elif isinstance(what, int):
            state.todo = tuple(action for action in state.todo if action != what)
            self._act(state, self._actions[what])
        else:
            state.early -= 1
            world.expire(state, *what)
        if not self._complete:
            world.settle_background(state)
        elif self._grain is not Grain.PACKETS:
            at_once(world, state)
        return self._check(state, before)

    def _note(self, state: State, step: Step) -> None:
        """Let the reduction know what may happen."""
        what, reduction = step.what, self._reduction
        if reduction is None:
            return
        if isinstance(what, Kind):
            at, event = what.target, event_of(state, what)
        elif isinstance(what, int):
            action = self._actions[what]
            if action.verb in ("crash", "cut"):
                return
            at = self._place[action.who]
            event = Event("action", at, what)
        else:
            at, event = what[0], Event("timer", what[0], what[1])
        if state.fate[at] == "alive" or isinstance(what, int):
            reduction.note(at, state.brokers[at], event)

    def _act(self, state: State, action: Action) -> None:
        world, place = self._world, self._place
        who, others = place[action.who], [place[other] for other in action.others]
        if action.verb == "join":
            state.fate[who] = "alive"
            urls = tuple(world.nodes[other].peer.url for other in others)
            world.give(state, who, Join(urls))
        elif action.verb == "crash":
            world.crash(state, who, frozenset(others))
        elif action.verb == "cut":
            world.cut(state, who, others[0])
        else:
            world.give(state, who, Leave())
            state.fate[who] = "killed"

    def _check(self, state: State, before: list[int]) -> list[str]:
        """Check what must hold at any moment."""
        found = []
        for at, number in enumerate(state.brokers):
            if number != before[at] and state.fate[at] == "alive":
                local = self._world.local(state, at)
                if local.view is not None:
                    found += local_findings(local.view)
                found += [f"b{at} points at {uid[:8]} without a link" for uid in local.unlinked]
        for _, fact in self._facts:
            if isinstance(fact, Confirmed):
                subject = self._world.index[fact.subject.uid]
                if state.fate[subject] != "alive":
                    state.confirmed |= {subject}
                elif self._scenario.accurate:
                    found.append(f"b{subject} lives and was declared dead")
            elif isinstance(fact, NeighboursChanged) and self._scenario.steady:
                found.append("a pointer has moved although nobody came or died")
        together = tuple(
            number if fate == "alive" else -1
            for number, fate in zip(state.brokers, state.fate, strict=True)
        )
        if together not in self._checked:
            self._checked.add(together)
            found += zave_findings(self._world.views(state))
        return found

    def _is_rest(self, state: State) -> bool:
        return not state.channels and not state.todo

    def _rest(self, state: State) -> list[str]:
        """Let time pass until the ring is ideal and stays so; return what is wrong if it is not.

        Before that, when all messages have arrived, all members know of a death that one has
        confirmed. Not so newcomers: who was not yet beside the dead is told by nobody.
        """
        world = self._world
        told = () if self._scenario.newcomers else state.confirmed
        gone = {world.nodes[at].peer.uid for at in told}
        for view in world.views(state):
            if gone & {member.uid for member in (*view.left, *view.right)}:
                return [f"ring id {view.member.ring_id} was not told of a death that is confirmed"]
        state = world.thaw(state)
        calm = 0
        findings: list[str] = []
        until = world.now + REST_LIMIT_NS
        while calm <= CALM_STEPS and world.now < until:
            if not world.pass_time(state, world.now + LAN.heartbeat_ns):
                findings = ["brokers send one another messages without end"]
                break
            views = world.views(state)
            findings = [*ring_findings(views), *symmetry_findings(views)]
            findings += [
                f"b{at} is not on the ring, or suspects somebody"
                for at, fate in enumerate(state.fate)
                if fate == "alive" and (world.nodes[at].member is None or world.nodes[at].suspects)
            ]
            calm = 0 if findings else calm + 1
        world.freeze_again(self._moment)
        return [f"does not come to rest: {finding}" for finding in findings]

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
