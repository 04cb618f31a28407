"""How often a link broke: one that broke, or was found half-open, counts; one given up does not."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.virtual import Weather
from benchmarks.stage.waiting import until
from ges.broker import Broker
from overlay.ids import LinkClass
from overlay.machine import Closed, CloseLink, MessageReceived, Send
from overlay.multigraph.probes import LinkEcho, LinkProbe
from overlay.security.identity import Role
from overlay.trace_schema import Verdict
from ring.wire.messages import Leaving, Member
from tests.ges.conftest import Issue
from tests.ges.routing.test_express import in_range, pair_of, ports
from tests.helpers.node_bench import Bench, peer

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE
FROZEN_MS = 1e6


def resets(here: Broker, there: Broker, *classes: LinkClass) -> list[int] | None:
    """Return how often links broke, rounded, by class; None: one is not there, or not measured."""
    links = {(link.uid, link.link_class): link for link in here.status().links}
    found = [links.get((there.node.peer.uid, link_class)) for link_class in classes]
    if any(link is None or link.rtt_ms is None for link in found):
        return None
    return [round(link.resets) for link in found if link is not None]


async def both_tell(a: Broker, b: Broker, *classes: LinkClass) -> list[list[int] | None]:
    """Wait until these links are measured; return how often each broke, as both ends say."""
    ends = ((a, b), (b, a))
    await until(lambda: all(resets(*pair, *classes) is not None for pair in ends))
    return [resets(*pair, *classes) for pair in ends]


async def test_the_express_link_breaks_with_the_link_beside_it(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    a, b = await pair_of(brokers)
    assert await both_tell(a, b, NORMAL, EXPRESS) == [[0, 0], [0, 0]]
    for count in (1, 2):
        old = [a.driver.links[b.node.peer.uid, link_class] for link_class in (NORMAL, EXPRESS)]
        await old[0].connection.stream.aclose()
        await until(lambda old=old: is_anew(a, b, old))  # type: ignore[misc]
        assert await both_tell(a, b, NORMAL, EXPRESS) == [[count, count]] * 2


def is_anew(here: Broker, there: Broker, old: list[object]) -> bool:
    links = here.driver.links
    new = [links.get((there.node.peer.uid, link_class)) for link_class in (NORMAL, EXPRESS)]
    ends = in_range(here, there) and in_range(there, here)
    return ends and None not in new and not any(link in old for link in new)


async def test_the_secure_link_breaks_with_the_link_beside_it(
    brokers: Brokers, issue: Issue
) -> None:
    a, b = await brokers.ring_of(2, issue(Role.BROKER), issue(Role.BROKER))
    assert await both_tell(a, b, NORMAL, SECURE) == [[0, 0], [0, 0]]
    old = a.driver.links[b.node.peer.uid, SECURE]
    await a.driver.links[b.node.peer.uid, NORMAL].connection.stream.aclose()
    await until(lambda: a.driver.links.get((b.node.peer.uid, SECURE)) not in (None, old))
    assert await both_tell(a, b, NORMAL, SECURE) == [[1, 1], [1, 1]]


async def test_links_found_half_open_broke(
    autojump_clock: MockClock, weather: Weather, brokers: Brokers
) -> None:
    a, b = await pair_of(brokers)
    await brokers.start()
    await brokers.whole()
    await until(lambda: in_range(a, b) and in_range(b, a))
    old: list[object] = [a.driver.links[b.node.peer.uid, each] for each in (NORMAL, EXPRESS)]
    weather.latency_ms[ports(a, b)] = FROZEN_MS
    await until(lambda: a.status().verdicts and b.status().verdicts)
    verdicts = {found.verdict for end in (a, b) for found in end.status().verdicts}
    assert verdicts == {Verdict.LINK_FAILED}
    del weather.latency_ms[ports(a, b)]
    await until(lambda: is_anew(a, b, old), timeout=60)
    assert await both_tell(a, b, NORMAL, EXPRESS) == [[1, 1], [1, 1]]


def measured(bench: Bench, link_class: LinkClass) -> float:
    """Let a link to c come up and be measured; return how often it broke."""
    bench.up("c", link_class)
    for effect in bench.node.handle_timers(bench.now):
        if isinstance(effect, Send) and isinstance(effect.message, LinkProbe):
            echo = LinkEcho(effect.message.token)
            bench.give(MessageReceived(effect.uid, echo, effect.link_class))
    weights = bench.node.survey.weights(("c" * 32, link_class), bench.now)
    assert weights is not None
    return weights.resets


@pytest.mark.parametrize("link_class", LinkClass)
@pytest.mark.parametrize("reason", Closed)
def test_which_ends_of_a_link_count(reason: Closed, link_class: LinkClass) -> None:
    """Those beside it end with it, and count as it does."""
    broke = reason in (Closed.LOST, Closed.OVERFLOW, Closed.PROTOCOL)
    bench = Bench()
    bench.neighbour("c")
    for count in range(3):
        assert measured(bench, NORMAL) == measured(bench, link_class) == count * broke
        bench.down("c", NORMAL, reason)


@pytest.mark.parametrize("link_class", LinkClass)
def test_one_that_leaves_breaks_no_link(link_class: LinkClass) -> None:
    bench = Bench()
    bench.neighbour("c")
    measured(bench, link_class)
    effects = bench.give(MessageReceived("c" * 32, Leaving(Member(peer("c"), 9))))
    assert any(isinstance(effect, CloseLink) for effect in effects)
    assert measured(bench, NORMAL) == measured(bench, link_class) == 0
