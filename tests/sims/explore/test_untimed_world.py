"""The world without time: links are refused and replaced as in the one with time."""

from __future__ import annotations

from typing import cast

import pytest

from overlay.machine import LinkRefused, LinkUp, OpenLink, Refused
from ring.facts import Join
from ring.node import RingNode
from sims.explore.persistent_sets import event_of
from sims.explore.state import Channel, State
from sims.explore.world import UntimedWorld
from tests.helpers.bench import peer
from tests.helpers.recorder import Do, Recorder

A, B = peer(1), peer(2)


class Linked:
    """Two recorders that are linked."""

    def __init__(self) -> None:
        self.machines = [Recorder(A), Recorder(B)]
        self.world = UntimedWorld(cast("list[RingNode]", self.machines), lambda at, fact: None)
        self.state: State = self.world.begin()
        for at in (0, 1):
            self.world.enter(self.state, at, Join(()))
        self.do(0, OpenLink(B.url, B.uid))
        self.run()
        for machine in self.machines:
            machine.seen.clear()

    def do(self, at: int, call: OpenLink) -> None:
        self.world.give(self.state, at, Do(call))

    def run(self) -> None:
        self.world.pass_time(self.state, 0)


@pytest.fixture
def linked() -> Linked:
    return Linked()


def test_a_call_to_one_that_is_linked_is_refused(linked: Linked) -> None:
    linked.do(0, OpenLink(B.url, B.uid))
    linked.run()
    a, b = linked.machines
    assert a.inputs == [LinkRefused(B.url, B.uid, Refused.DUPLICATE)]
    assert b.inputs == []


def test_a_call_may_replace_the_link_there_is(linked: Linked) -> None:
    linked.do(0, OpenLink(B.url, B.uid, replace=True))
    linked.run()
    a, b = linked.machines
    assert (a.inputs, b.inputs) == ([LinkUp(B, B.url)], [LinkUp(A, A.url)])
    assert linked.state.wires == {(0, 1), (1, 0)}


@pytest.mark.parametrize(("replace", "what"), [(False, "again"), (True, "call")])
def test_orders_of_a_call_that_replaces_a_link_are_told_apart(
    linked: Linked, replace: bool, what: str
) -> None:
    linked.do(0, OpenLink(B.url, B.uid, replace=replace))
    assert event_of(linked.world, linked.state, Channel("call", 0, 1)).what == what
