"""Random courses of a cluster: subscriptions, losses, joins and crashes in any order.

Rules of the kind "in doubt include" that these courses hold, each found by leaving it out:

* a member that has told nothing yet counts as interested in everything (``MemberProfiles``);
* so does one that does not know yet that the broker is back in another life (``is_greeted``);
* so does one that has told of a version which is not held (``is_behind``);
* a broker that was taken for dead forgets what it holds when it is back (``rejoined``);
* a subscription waits for every member that is known, where its broker is new for all of them
  (``Acknowledgements``);
* what a cover has covered comes back in the change in which the cover goes (``Profile``);
* in a change of several steps, what is added goes first (``Profile.cut``).
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from overlay.ids import LinkClass
from tests.ges.profiles.cluster import FILTERS, Cluster
from tests.helpers.examples import examples

UIDS = [digit * 32 for digit in "01234567"]
PAUSES = [1, 5, 20, 100, 1000, 4000]  #: milliseconds
CLASSES = [None, None, None, *LinkClass]


#: What happens in a course, and how often.
STEPS = {
    **{"deliver": 30, "subscribe": 16, "unsubscribe": 8, "wait": 10, "see_members": 6},
    **{"lose": 4, "come_back": 3, "compare": 3, "double": 2, "join": 2, "crash": 1, "banish": 1},
}


class Courses(RuleBasedStateMachine):
    """What may happen to a cluster of up to eight brokers."""

    @initialize(seed=st.integers(0, 2**32), n=st.integers(1, 4), limit=st.sampled_from([2, 16_384]))
    def begin(self, seed: int, n: int, limit: int) -> None:
        self.cluster = Cluster(Random(seed), limit)
        self.away: set[str] = set()
        for uid in UIDS[:n]:
            self.cluster.join(uid)

    def one_of(self, at: int) -> str:
        return sorted(self.cluster.brokers)[at % len(self.cluster.brokers)]

    @rule(at=st.integers(0, 7), text=st.sampled_from(FILTERS), of=st.sampled_from(CLASSES))
    def subscribe(self, at: int, text: str, of: LinkClass | None) -> None:
        self.cluster.subscribe(self.one_of(at), text, of)

    @rule(at=st.integers(0, 7), which=st.integers(0, 99))
    def unsubscribe(self, at: int, which: int) -> None:
        uid = self.one_of(at)
        if wanted := sorted(self.cluster.brokers[uid].wanted):
            self.cluster.unsubscribe(uid, wanted[which % len(wanted)])

    @rule(at=st.integers(0, 999), count=st.integers(1, 8))
    def deliver(self, at: int, count: int) -> None:
        for step in range(count):
            self.cluster.deliver(at * (step + 1))

    @rule(at=st.integers(0, 999))
    def lose(self, at: int) -> None:
        self.cluster.lose(at)

    @rule(at=st.integers(0, 999))
    def double(self, at: int) -> None:
        self.cluster.double(at)

    @rule(milliseconds=st.sampled_from(PAUSES))
    def wait(self, milliseconds: int) -> None:
        self.cluster.wait(milliseconds)

    @rule(at=st.integers(0, 7))
    def join(self, at: int) -> None:
        missing = [uid for uid in UIDS if uid not in self.cluster.brokers]
        if missing:
            self.cluster.join(missing[at % len(missing)])

    @precondition(lambda self: len(self.cluster.brokers) > 1)
    @rule(at=st.integers(0, 7))
    def crash(self, at: int) -> None:
        uid = self.one_of(at)
        self.away.discard(uid)
        self.cluster.crash(uid)

    @precondition(lambda self: len(self.cluster.brokers) > len(self.away) + 1)
    @rule(at=st.integers(0, 7))
    def banish(self, at: int) -> None:
        uid = self.one_of(at)
        if uid not in self.away:
            self.away.add(uid)
            self.cluster.banish(uid)

    @precondition(lambda self: self.away)
    @rule(at=st.integers(0, 7))
    def come_back(self, at: int) -> None:
        uid = sorted(self.away)[at % len(self.away)]
        self.away.discard(uid)
        self.cluster.come_back(uid)

    @rule(at=st.integers(0, 7))
    def see_members(self, at: int) -> None:
        broker = self.cluster.brokers[self.one_of(at)]
        view = broker.view + 1
        if view < len(self.cluster.views) and broker.uid not in self.away:
            self.cluster.show(broker.uid, view)

    @rule(at=st.integers(0, 7), other=st.integers(0, 7))
    def compare(self, at: int, other: int) -> None:
        one, two = self.one_of(at), self.one_of(other)
        if one != two:
            self.cluster.compare(one, two)

    @rule(seed=st.integers(0, 2**32))
    def many_steps(self, seed: int) -> None:
        """Weighted, as courses with as many deaths as deliveries get nowhere."""
        rng = Random(seed)
        for name in rng.choices([*STEPS], [*STEPS.values()], k=15):
            self.step(name, rng)
            self.cluster.check_nothing_is_missed()

    def step(self, name: str, rng: Random) -> None:
        at, other = rng.randrange(1000), rng.randrange(1000)
        match name:
            case "deliver":
                self.deliver(at, rng.randint(1, 10))
            case "subscribe":
                self.subscribe(at, rng.choice(FILTERS), rng.choice(CLASSES))
            case "wait":
                self.wait(rng.choice(PAUSES))
            case "unsubscribe":
                self.unsubscribe(at, other)
            case "compare":
                self.compare(at, other)
            case "crash" if len(self.cluster.brokers) < 2:
                pass
            case "banish" if len(self.cluster.brokers) <= len(self.away) + 1:
                pass
            case "come_back" if not self.away:
                pass
            case _:
                getattr(self, name)(at)

    @invariant()
    def nothing_is_missed(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.check_nothing_is_missed()

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.end()

    def end(self) -> None:
        """Let all come to rest, and compare with the truth."""
        for uid in sorted(self.away):
            self.cluster.come_back(uid)
        self.cluster.settle()
        self.cluster.check_nothing_is_missed()
        self.cluster.check_at_rest()


TestCourses = Courses.TestCase
TestCourses.settings = settings(
    max_examples=examples(20),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.parametrize(
    "seed", [*range(30), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(30, 100))]
)
def test_a_long_course(seed: int) -> None:
    rng = Random(seed)
    courses = Courses()
    courses.begin(seed, rng.randint(1, 5), rng.choice([2, 16_384]))
    for _ in range(10):
        courses.many_steps(rng.randrange(2**32))
    courses.end()


def test_in_these_courses_things_do_happen() -> None:
    """Else they would show nothing."""
    seen: Counter[str] = Counter()
    for seed in range(10):
        courses = Courses()
        courses.begin(seed, 4, 2)
        for number in range(10):
            courses.many_steps(1000 * seed + number)
            members = courses.cluster.members()
            seen["active"] += sum(len(broker.active) for broker in members)
            seen["waiting"] += sum(len(broker.exchange.activity) for broker in members)
            for broker in members:
                for other in members:
                    seen["behind"] += broker.exchange.others.is_behind(other.uid)
                seen["merged"] += broker.exchange.profile.is_merged
    assert all(seen[what] > 50 for what in ("active", "waiting", "behind", "merged")), seen
