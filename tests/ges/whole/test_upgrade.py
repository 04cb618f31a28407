"""Brokers of two protocol versions in one ring: events flow, and failures are repaired."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import connect
from overlay.ids import LinkClass
from ring.errors import JoinFailed
from tests.helpers.next_version import NEXT, NewestBroker, NextBroker, NextNode

DEADLINE_SECONDS = 20


async def everybody_hears_everybody(brokers: Brokers) -> None:
    """Publish at each broker, and see that a subscriber at each other one gets it, once."""
    for publisher, other in product(brokers.alive, repeat=2):
        async with (
            connect(publisher.url) as here,
            connect(other.url) as there,
            there.subscribe("#") as events,
        ):
            for number in range(3):
                await here.publish("a", b"%d" % number)
            with trio.fail_after(DEADLINE_SECONDS):
                got = [(await anext(events)).payload for _ in range(3)]
            assert got == [b"0", b"1", b"2"]


def _has_beaten(node: NextNode) -> bool:
    return node.sent > 0


def versions(broker: Broker) -> dict[str, int]:
    return {
        uid: link.agreed.version
        for (uid, kind), link in broker.driver.links.items()
        if kind is LinkClass.NORMAL
    }


async def test_a_ring_of_two_versions(brokers: Brokers) -> None:
    kinds: list[type[Broker]] = [Broker, NextBroker, Broker, NextBroker, Broker, Broker]
    for kind in kinds:
        await brokers.start(kind=kind)
    await brokers.whole()
    await everybody_hears_everybody(brokers)
    newer = [broker for broker in brokers.alive if isinstance(broker, NextBroker)]
    uids = {broker.node.peer.uid for broker in newer}
    for broker in newer:
        for uid, version in versions(broker).items():
            assert version == (NEXT if uid in uids else NEXT - 1)
        node = broker.node
        assert isinstance(node, NextNode)
        await until(partial(_has_beaten, node), what="heartbeats with a field more")
        assert set(node.moods) == {"fine"}, "from the other of its kind"
        assert broker.driver.counters["control_messages_not_known_there"] > 0

    brokers.kill(brokers.alive[2])
    brokers.kill(newer[1])
    await brokers.whole()
    await everybody_hears_everybody(brokers)
    assert [broker.driver.counters["protocol_errors"] for broker in brokers.alive] == [0] * 4


async def test_a_broker_is_replaced_by_one_of_the_next_version(brokers: Brokers) -> None:
    """As in an upgrade: one after the other goes, and comes back newer."""
    for _ in range(3):
        await brokers.start()
    await brokers.whole()
    for _ in range(3):
        brokers.kill(brokers.alive[0])
        await brokers.start(kind=NextBroker)
        await brokers.whole()
    assert all(set(versions(broker).values()) == {NEXT} for broker in brokers.alive)
    await everybody_hears_everybody(brokers)


async def test_a_broker_without_a_version_in_common_is_told_both_ranges(brokers: Brokers) -> None:
    old = await brokers.start()
    with trio.fail_after(DEADLINE_SECONDS), pytest.raises(JoinFailed) as caught:
        await brokers.start(kind=NewestBroker)
    told = str(caught.value)
    assert f"speaks protocol version {NEXT - 1}, the caller version {NEXT}" in told
    await until(lambda: not old.driver.links)
