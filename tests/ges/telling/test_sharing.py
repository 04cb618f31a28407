"""Random courses of brokers that share a table: whatever is lost, all hold the same rows at rest.

Every broker writes one row, its own. Messages are lost, doubled and overtaken, brokers are cut off,
begin another life, leave and come back. Meanwhile nobody holds what its writer has not written, no
row goes back, and no table grows beyond its bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ges.telling.arcs import WHOLE
from ges.telling.shared import SharedTable, Sharing, Table, is_later
from ges.wire.telling_messages import Held, Rows, RowsWanted, RowVersion, TellTaken, Told
from ges.wire.unit_messages import MemberRow
from overlay.ids import Peer, nanos
from overlay.machine import Effect, Message, Send
from ring.geometry import RING_SIZE
from ring.wire.messages import Member

KIND, EARLY, MOST = 77, 2, 6
MILLISECOND = nanos(0.001)
PAUSES = (1, 20, 300, 1000, 4000)
#: What happens in a course, and how often.
STEPS = {
    **{"deliver": 30, "write": 10, "wait": 10, "lose": 5, "double": 3, "follow": 5},
    **{"cut": 1, "heal": 1, "restart": 1, "leave": 1, "enter": 2, "long_cut": 1},
}


class Note(msgspec.Struct, frozen=True, array_like=True):
    """A row: what one broker says of itself."""

    of: str
    version: RowVersion


class Writer:
    """One broker in one of its lives; it sees all that are linked."""

    def __init__(self, number: int, life: int) -> None:
        self.peer = Peer(f"{number:032x}", life, f"chordal://{number}.test:1")
        self.member: Member | None = Member(self.peer, number * RING_SIZE // MOST)
        self.linked: dict[str, int] = {}
        self.live: dict[str, MemberRow] = {}
        self.count = 0
        self.sharing = Sharing(self, lambda: WHOLE)
        rows: Table[Note] = Table(lambda row: row.of, lambda row: row.version, EARLY)
        self.table: SharedTable[Note] = SharedTable(self.sharing, KIND, Note, rows, self._on_news)
        self.went_back: list[Note] = []

    @property
    def uid(self) -> str:
        return self.peer.uid

    def _on_news(self, row: Note, before: Note | None, now: int) -> None:
        if before is not None and not is_later(row.version, before.version):
            self.went_back.append(row)


@dataclass
class Net:
    """Brokers, what is under way between them, and a clock."""

    rng: Random
    now: int = 0
    brokers: dict[str, Writer] = field(default_factory=dict)
    away: dict[str, Writer] = field(default_factory=dict)
    lives: dict[int, int] = field(default_factory=dict)
    under_way: list[tuple[str, str, Message]] = field(default_factory=list)
    cut_off: set[str] = field(default_factory=set)

    def enter(self, number: int) -> None:
        """A broker begins a life, in place of the one before."""
        life = self.lives[number] = self.lives.get(number, 0) + 1
        writer = Writer(number, life)
        self.brokers[writer.uid] = writer
        self.follow_all()
        self.write(writer.uid)

    def leave(self, uid: str) -> None:
        del self.brokers[uid]
        self.under_way = [each for each in self.under_way if uid not in each[:2]]
        for each in self.brokers.values():
            self.do(each, each.sharing.spread.strike([uid], self.now))

    def follow(self, uid: str) -> None:
        """A broker sees who is there now."""
        broker = self.brokers[uid]
        members = {each.uid: each.member for each in self.brokers.values() if each.member}
        broker.live = {u: MemberRow(int(u, 16), member, 3) for u, member in members.items()}
        is_cut = uid in self.cut_off
        broker.linked = {
            each: member.ring_id
            for each, member in members.items()
            if each != uid and (each in self.cut_off) == is_cut
        }
        broker.table.table.follow(sorted(members))
        order = sorted(broker.linked)
        near = [u for u in order if u > uid][:1] or order[:1]
        near += [u for u in order if u < uid][-1:] or order[-1:]
        broker.sharing.comparison.set_neighbours(dict.fromkeys(near), self.now)

    def follow_all(self) -> None:
        for uid in self.brokers:
            self.follow(uid)

    def write(self, uid: str) -> None:
        broker = self.brokers[uid]
        broker.count += 1
        row = Note(uid, RowVersion(broker.peer.incarnation, broker.count, uid))
        broker.table.table.take_row(row)
        self.do(broker, broker.table.tell(row, self.now))

    # ── the network and the clock ─────────────────────────────────────────────────────────────

    def do(self, broker: Writer, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and effect.uid in self.brokers:
                self.under_way.append((broker.uid, effect.uid, effect.message))

    def deliver(self, at: int) -> None:
        if not self.under_way:
            return
        source, target, message = self.under_way.pop(at % len(self.under_way))
        if (source in self.cut_off) != (target in self.cut_off):
            return
        broker = self.brokers[target]
        sharing, now = broker.sharing, self.now
        match message:
            case Told():
                self.do(broker, sharing.spread.on_told(source, message, now))
            case TellTaken():
                self.do(broker, sharing.spread.on_taken(source, message, now))
            case Held():
                self.do(broker, sharing.comparison.on_held(source, message, now))
            case RowsWanted():
                self.do(broker, sharing.on_wanted(source, message, now))
            case Rows():
                self.do(broker, sharing.on_rows(source, message, now))
            case _:
                raise AssertionError(message)

    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds * MILLISECOND
        for broker in self.brokers.values():
            for timed in (broker.sharing.spread, broker.sharing.comparison):
                self.do(broker, timed.handle_timers(self.now))

    def settle(self) -> None:
        """Nothing is lost any more, and all see who is there."""
        self.cut_off.clear()
        self.follow_all()
        for _ in range(4 * 40):
            for _ in range(10_000):
                if not self.under_way:
                    break
                self.deliver(self.rng.randrange(len(self.under_way)))
            self.wait(250)

    # ── what must hold ────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        for broker in self.brokers.values():
            table = broker.table.table
            assert broker.went_back == []
            assert len(table) <= len(broker.live) + EARLY
            for row in table:
                number = int(row.of, 16)
                assert row.version.epoch <= self.lives[number]
                writer = self.brokers.get(row.of)
                if writer is not None and row.version.epoch == writer.peer.incarnation:
                    assert row.version.count <= writer.count

    def check_at_rest(self) -> None:
        truth = {uid: (each.peer.incarnation, each.count) for uid, each in self.brokers.items()}
        for broker in self.brokers.values():
            rows = {row.of: (row.version.epoch, row.version.count) for row in broker.table.table}
            assert rows == truth, broker.uid
        assert len({each.table.digest for each in self.brokers.values()}) <= 1


class Courses(RuleBasedStateMachine):
    """What may happen to up to six brokers that share a table."""

    @initialize(seed=st.integers(0, 2**32), n=st.integers(1, MOST))
    def begin(self, seed: int, n: int) -> None:
        self.net = Net(Random(seed))
        for number in range(n):
            self.net.enter(number + 1)

    @rule(seed=st.integers(0, 2**32))
    def many_steps(self, seed: int) -> None:
        rng = Random(seed)
        for name in rng.choices([*STEPS], [*STEPS.values()], k=15):
            self.step(name, rng)

    def step(self, name: str, rng: Random) -> None:
        net, at = self.net, rng.randrange(1000)
        uid = sorted(net.brokers)[at % len(net.brokers)]
        absent = [n for n in range(1, MOST + 1) if f"{n:032x}" not in net.brokers]
        match name:
            case "deliver":
                for _ in range(rng.randint(1, 10)):
                    net.deliver(rng.randrange(1000))
            case "write":
                net.write(uid)
            case "wait":
                net.wait(rng.choice(PAUSES))
            case "lose" if net.under_way:
                net.under_way.pop(at % len(net.under_way))
            case "double" if net.under_way:
                net.under_way.append(net.under_way[at % len(net.under_way)])
            case "follow":
                net.follow(uid)
            case "cut":
                net.cut_off = {each for each in net.brokers if rng.random() < 0.5}
            case "long_cut":  # telling is given up, so that comparing alone can repair
                net.cut_off = {uid}
                net.write(uid)
                for _ in range(8):
                    net.wait(4000)
                    net.under_way.clear()
                net.cut_off = set()
            case "heal":
                net.cut_off = set()
            case "restart":
                net.enter(int(uid, 16))
            case "leave" if len(net.brokers) > 1:
                net.leave(uid)
            case "enter" if absent:
                net.enter(rng.choice(absent))

    @invariant()
    def nothing_is_made_up(self) -> None:
        if hasattr(self, "net"):
            self.net.check()

    def teardown(self) -> None:
        if hasattr(self, "net"):
            self.end()

    def end(self) -> None:
        self.net.settle()
        self.net.check()
        self.net.check_at_rest()


TestCourses = Courses.TestCase
TestCourses.settings = settings(
    max_examples=20,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.parametrize(
    "seed", [*range(15), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(15, 100))]
)
def test_a_long_course(seed: int) -> None:
    rng = Random(seed)
    courses = Courses()
    courses.begin(seed, rng.randint(2, MOST))
    for _ in range(10):
        courses.many_steps(rng.randrange(2**32))
        courses.nothing_is_made_up()
    courses.end()


def test_it_is_comparing_that_repairs_what_telling_has_lost() -> None:
    """Without it the courses would show nothing of the questions and the answers."""
    net = Net(Random(1))
    for number in (1, 2, 3):
        net.enter(number)
    net.settle()
    net.write(f"{1:032x}")
    net.under_way.clear()
    first = net.brokers[f"{1:032x}"]
    first.sharing.spread.strike([each for each in net.brokers if each != first.uid], net.now)
    asked = 0
    for _ in range(100):
        while net.under_way:
            asked += isinstance(net.under_way[0][2], RowsWanted)
            net.deliver(0)
        net.wait(250)
    assert asked > 0
    net.check_at_rest()
