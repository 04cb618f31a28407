"""Every order in which things may happen to a small ring, tried out one by one.

A scenario (:mod:`sims.scopes`) is a small ring at rest and a few *actions*: a join begins, a broker
dies, a link breaks.
The explorer branches over the order in which pending deliveries and actions happen, and over which
timers run out early, up to a bound. After every step it checks what must hold at any moment; where
nothing is left to happen it lets time pass in a fair order and requires the ideal ring.

Two ways to search:

* *complete*: at every state every channel may be next. For rings of few brokers.
* *delay-bounded* (M. Emmi, S. Qadeer, Z. Rakamarić, "Delay-bounded scheduling", 2011): deliveries
  come in the order of sending, except that up to D times the channel that is next is put off behind
  all others. Actions and early timers may still come at any point. Every schedule with at most D
  delays is tried.

States that were seen before are not gone on from. What is abstracted away, so that there are
finitely many: see :mod:`sims.untimed` (time, background messages, packets) and
:data:`sims.freeze.IGNORED`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from overlay.ids import Nanos, Peer, nanos
from overlay.machine import Fact
from overlay.rng import rng_for
from ring.config import LAN
from ring.core import Timer
from ring.facts import Confirmed, Found, Join, Leave, NeighboursChanged
from ring.invariants import local_findings, ring_findings, symmetry_findings, zave_findings
from ring.node import RingNode
from sims.errors import SimulationError
from sims.scopes import COMPLETE, SCENARIOS, Action
from sims.untimed import Untimed
from sims.untimed_state import Kind, State

REST_LIMIT_NS = nanos(120)
CALM_STEPS = 6  #: periods for which the ring must stay as it should be


@dataclass(frozen=True, slots=True)
class Step:
    """One choice: ``what`` is a channel, an action's number, or a broker and its timer."""

    what: Kind | int | tuple[int, tuple[Timer, str]]
    delay: bool = False


@dataclass(slots=True)
class Report:
    """What a search has found."""

    scenario: str
    brokers: int
    delays: int
    states: int = 0
    steps: int = 0
    seen_before: int = 0
    rests: int = 0  #: different states in which nothing was left to happen
    depth: int = 0
    complete: bool = True  #: within the bound, everything was tried
    findings: tuple[str, ...] = ()
    choices: tuple[int, ...] = ()  #: that led to the findings
    story: tuple[str, ...] = ()  #: the same in words

    @property
    def replay(self) -> str:
        """The command that shows the findings again."""
        chosen = ",".join(map(str, self.choices))
        return (
            f"chordal sim explore {self.scenario} --brokers {self.brokers} "
            f"--delays {self.delays} --replay {chosen}"
        )

    def in_words(self) -> str:
        """Say in one line how far the search went."""
        within = "in any order" if self.delays == COMPLETE else f"with up to {self.delays} delays"
        if self.choices:
            return f"{self.scenario}: {len(self.choices)} steps replayed"
        return (
            f"{self.scenario}, {self.brokers} brokers, {within}: {self.states} states, "
            f"{self.steps} steps ({self.seen_before} to states seen before), depth {self.depth}, "
            f"{self.rests} ways to come to rest: "
            + ("complete" if self.complete else "stopped at the limit")
        )


class _Trail:
    """How a state was reached; shares its beginning with others."""

    __slots__ = ("before", "choice", "depth")

    def __init__(self, before: _Trail | None, choice: int) -> None:
        self.before = before
        self.choice = choice
        self.depth: int = 0 if before is None else before.depth + 1

    def choices(self) -> tuple[int, ...]:
        found = []
        here: _Trail | None = self
        while here is not None and here.before is not None:
            found.append(here.choice)
            here = here.before
        return tuple(reversed(found))


@dataclass(slots=True)
class _Met:
    """What the brokers said in one step."""

    facts: list[tuple[int, Fact]] = field(default_factory=list)


class Explorer:
    """Searches one scenario. Deterministic: the same arguments give the same report.

    Raises:
        SimulationError: there is no such scenario, or it does not work with so few brokers.
    """

    def __init__(self, name: str, *, brokers: int | None = None, delays: int | None = None) -> None:
        if name not in SCENARIOS:
            raise SimulationError(f"no scenario {name!r}; there are {', '.join(SCENARIOS)}")
        self._scenario = scenario = SCENARIOS[name]
        n = scenario.brokers if brokers is None else brokers
        self._members = members = n - scenario.newcomers
        if not members >= 2 or n > 12:
            raise SimulationError(f"{name} works with {scenario.newcomers + 2} to 12 brokers")
        self._delays = scenario.delays if delays is None else delays
        self._complete = self._delays == COMPLETE
        self._report = Report(name, n, self._delays)
        self._met = _Met()
        nodes = [_node(at) for at in range(n)]
        self._world = Untimed(nodes, lambda at, fact: self._met.facts.append((at, fact)))
        self._start = self._form(members)
        self._moment: Nanos = self._world.now
        order = sorted(range(members), key=lambda at: _ring_id(nodes[at]))
        self._place = [*order, *range(members, n)]  #: place in the ring -> number of the broker
        self._actions = scenario.actions(members)
        if any(max(a.who, *a.others, 0) >= n for a in self._actions):
            raise SimulationError(f"{name} needs more than {n} brokers")
        self._world.number(self._start)
        self._start.todo = tuple(range(len(self._actions)))
        self._start.early = scenario.early
        self._checked: set[tuple[int, ...]] = set()

    # ── searching ─────────────────────────────────────────────────────────────────────────────

    def search(self, limit: int = 1_000_000) -> Report:
        """Go through all states within the bound, at most ``limit`` of them."""
        report = self._report
        seen = {self._key(self._start)}
        #: by delays spent: those with fewest first, so that no state is met again with more to go
        waiting: list[list[tuple[State, _Trail]]] = [[(self._start, _Trail(None, -1))]]
        waiting += [[] for _ in range(max(0, self._delays))]
        for spent, bucket in enumerate(waiting):
            while bucket:
                state, trail = bucket.pop()
                report.states += 1
                report.depth = max(report.depth, trail.depth)
                steps = self._steps(state, spent)
                if self._is_rest(state):
                    report.rests += 1
                    findings = self._rest(state)
                    if findings:
                        return self._broken(findings, trail)
                for choice, step in enumerate(steps):
                    child = state.copy()
                    findings = self._take(child, step)
                    report.steps += 1
                    onward = _Trail(trail, choice)
                    if findings:
                        return self._broken(findings, onward)
                    key = self._key(child)
                    if key in seen:
                        report.seen_before += 1
                    else:
                        seen.add(key)
                        waiting[spent + step.delay].append((child, onward))
                if report.states >= limit:
                    report.complete = False
                    return report
        return report

    def replay(self, choices: Sequence[int]) -> Report:
        """Take the given choices and no others; the report tells the story."""
        state, spent, trail = self._start.copy(), 0, _Trail(None, -1)
        findings: list[str] = []
        for choice in choices:
            steps = self._steps(state, spent)
            if not 0 <= choice < len(steps):
                raise SimulationError(f"step {trail.depth + 1} has {len(steps)} choices")
            findings = self._take(state, steps[choice])
            spent += steps[choice].delay
            trail = _Trail(trail, choice)
            if findings:
                break
        if not findings and self._is_rest(state):
            findings = self._rest(state)
        return self._broken(findings, trail)

    def _broken(self, findings: list[str], trail: _Trail) -> Report:
        report = self._report
        report.complete = False
        report.findings, report.choices = tuple(findings), trail.choices()
        state, spent, story = self._start.copy(), 0, []
        for choice in report.choices:
            step = self._steps(state, spent)[choice]
            story.append(self._in_words(state, step))
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
            steps = [Step(channel) for channel in sorted(state.channels)]
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

    def _take(self, state: State, step: Step) -> list[str]:
        world, what = self._world, step.what
        self._met.facts.clear()
        before = list(state.brokers)
        if isinstance(what, Kind):
            if step.delay:
                state.channels[what] = state.channels.pop(what)
                return []
            world.deliver(state, what)
        elif isinstance(what, int):
            state.todo = tuple(action for action in state.todo if action != what)
            self._act(state, self._actions[what])
        else:
            state.early -= 1
            world.expire(state, *what)
        world.settle_background(state)
        return self._check(state, before)

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
        for _, fact in self._met.facts:
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

    def _in_words(self, state: State, step: Step) -> str:
        what = step.what
        if isinstance(what, int):
            return str(self._actions[what])
        name = {number: f"b{place}" for place, number in enumerate(self._place)}
        if not isinstance(what, Kind):
            return f"at {name[what[0]]} the timer {what[1][0].name} runs out early"
        item = self._world.items[state.channels[what][0]]
        shown = type(item).__name__
        inside = getattr(item, "messages", ())
        if inside:
            shown = ", ".join(type(message).__name__ for message in inside)
        way = f"{name[what.source]} -> {name[what.target]}"
        return f"{way}: {shown} {'is put off' if step.delay else 'arrives'}"


def explore(
    name: str, *, brokers: int | None = None, delays: int | None = None, limit: int = 1_000_000
) -> Report:
    """Search the scenario ``name``."""
    return Explorer(name, brokers=brokers, delays=delays).search(limit)


def _node(at: int) -> RingNode:
    peer = Peer(f"{at + 1:032x}", 1, f"chordal://b{at}.explored:9470")
    return RingNode(LAN, peer, rng_for(1, "explored", at))


def _ring_id(node: RingNode) -> int:
    assert node.member is not None
    return node.member.ring_id
