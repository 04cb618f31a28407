"""Whatever happens to a small ring, and in whatever order: it stays sound, and heals at rest."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from benchmarks.bars.watched_rings import WatchedRing
from ring.facts import DropRecord
from sims.experiments.cluster import KILL, POWER
from sims.world.world import CrashMode
from tests.helpers.examples import examples

LIMIT = 12  #: brokers alive at once
KEYS = ("a", "b", "c")  #: few, so that brokers put and inherit the same records


class Churn(RuleBasedStateMachine):
    """One broker, the anchor, never dies: newcomers and those that restart know its address.

    Gentle runs keep to what Zave's invariants assume, so that these are asked for all the time; in
    the others, as long as nothing has gone against it, and again once the ring has healed.
    """

    brokers: Bundle[str] = Bundle("brokers")

    @initialize(seed=st.integers(0, 1000), gentle=st.booleans())
    def found(self, seed: int, gentle: bool) -> None:
        self.gentle = gentle
        self.cluster = WatchedRing(seed)
        self.anchor = self.cluster.found()
        self.cluster.run(0.5)

    @precondition(lambda self: len(self.cluster.alive) < LIMIT)
    @rule(target=brokers, count=st.integers(1, 4))
    def join(self, count: int) -> MultipleResults[str]:
        return multiple(*(self.cluster.start([self.anchor]) for _ in range(count)))

    @rule(uid=brokers, mode=st.sampled_from([KILL, POWER]))
    def crash(self, uid: str, mode: CrashMode) -> None:
        if uid in self.cluster.alive and (not self.gentle or self.cluster.may_lose(uid)):
            self.cluster.crash(uid, mode)

    @rule(uid=brokers)
    def restart(self, uid: str) -> None:
        if uid not in self.cluster.alive and uid not in self.cluster.gone:
            self.cluster.restart(uid, [self.anchor])

    @rule(uid=brokers)
    def leave(self, uid: str) -> None:
        if self.is_running(uid) and (not self.gentle or self.cluster.may_lose(uid)):
            self.cluster.leave(uid)

    @precondition(lambda self: not self.gentle)
    @rule(uid=brokers)
    def pause(self, uid: str) -> None:
        if uid in self.cluster.alive:
            self.cluster.pause(uid)

    @precondition(lambda self: not self.gentle)
    @rule()
    def pause_anchor(self) -> None:
        self.cluster.pause(self.anchor)

    @precondition(lambda self: self.cluster.paused)
    @rule()
    def resume(self) -> None:
        for uid in sorted(self.cluster.paused):
            self.cluster.resume(uid)

    @rule(uid=brokers, key=st.sampled_from(KEYS), body=st.binary(max_size=2))
    def put(self, uid: str, key: str, body: bytes) -> None:
        if self.is_running(uid):
            self.cluster.put(uid, key, body)

    @rule(uid=brokers, key=st.sampled_from(KEYS))
    def drop(self, uid: str, key: str) -> None:
        if self.is_running(uid):
            self.cluster.world.give(uid, DropRecord(key))

    @rule(seconds=st.sampled_from([0.0005, 0.002, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.run(seconds)

    @invariant()
    def lists_are_sound(self) -> None:
        assert self.cluster.ledger.findings == []

    @invariant()
    def the_ring_is_sound(self) -> None:
        self.cluster.check()
        assert self.cluster.broken == []

    def is_running(self, uid: str) -> bool:
        return uid in self.cluster.alive and uid not in self.cluster.paused

    def teardown(self) -> None:
        self.resume()
        self.cluster.settle(limit_s=600)
        assert self.cluster.broken == []
        assert self.cluster.ledger.unrepaired == 0


TestChurn = Churn.TestCase
TestChurn.settings = settings(
    max_examples=examples(25),
    stateful_step_count=50,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # to find the shortest way to a failure is for the long run
)


@pytest.mark.soak
def test_long_churn() -> None:
    run_state_machine_as_test(Churn, settings=settings(max_examples=1500, stateful_step_count=60))
