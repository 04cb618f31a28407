"""The table of handlers and the list of messages on the wire agree."""

from __future__ import annotations

import pytest

from overlay.ids import Peer
from overlay.rng import rng_for
from ring.config import LAN
from ring.coordination.dispatch import PASSIVE, PASSIVE_TIMERS
from ring.core import Timer
from ring.facts import Joined
from ring.node import RingNode
from ring.wire.messages import JoinAccept, Relay, Route, Towards
from ring.wire.registry import RING_MESSAGES
from tests.helpers.bench import Bench, member, told

NODE = RingNode(LAN, Peer(f"{1:032x}", 1, "chordal://one.test:9470"), rng_for(1, "dispatch"))


def test_every_message_on_the_wire_has_a_handler_and_no_other_has() -> None:
    """Relays are opened before: what is in them is what is handled."""
    assert set(NODE._on_message) == set(RING_MESSAGES) - {Relay}


def test_no_message_is_on_the_wire_twice() -> None:
    assert len(set(RING_MESSAGES)) == len(RING_MESSAGES)


def test_every_timer_has_a_handler() -> None:
    assert set(NODE._on_timer) == set(Timer)


@pytest.mark.parametrize("towards", Towards)
def test_a_search_that_comes_to_a_broker_without_a_place_does_no_harm(towards: Towards) -> None:
    """Its own from before it was declared dead may come back to it; any peer may send one."""
    bench = Bench(300)
    bench.join(member(100))
    origin = member(700)
    route = Route(origin, 1, 600, towards, None, (origin.uid,), (), origin, 1)
    bench.receive(member(100), route)
    assert told(bench.receive(member(100), JoinAccept(50, member(100), ())), Joined) != []


def test_what_is_called_passive_is_handled_at_all() -> None:
    assert set(NODE._on_message) >= PASSIVE
    assert set(NODE._on_timer) >= PASSIVE_TIMERS
