"""Events take the links that operators have named, and no others, in whole overlays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pytest

from ges.bench.ges22.topology import BROKERS, PUBLISHER, Topology, hops, named_by, unit_of
from ges.routing.outlets import Line
from ges.units.planner import UnitsConfig
from overlay.ids import LinkClass, nanos
from overlay.trace_schema import Fate
from overlay.wire.codec import FrameRun
from sims.experiments.service import Service
from sims.workloads.readers import Reader
from sims.workloads.traffic import Flowing
from sims.world.brokers import WholeBroker
from sims.world.cuts import Cut
from tests.helpers.overlays import attach

NORMAL = LinkClass.NORMAL
START_S = 0.3  #: between two brokers that start
ORDER = (PUBLISHER, *(number for number in BROKERS if number != PUBLISHER))


class Overlay:
    """Brokers by number, and the links that events have come over."""

    def __init__(self, limit: int = 64, *, secure: bool = False, seed: int = 1) -> None:
        units = UnitsConfig(limit, nanos(3.0))
        self.service = Service(seed, units=units, secure=secure)
        self.over: Counter[tuple[int, int]] = Counter()  #: from, to
        self.uids: dict[int, str] = {}

    def start(
        self, number: int, links: Iterable[int] = (), *, declared: bool = True, unit: str = ""
    ) -> None:
        """Start a broker that names links to these, and watch what comes to it."""
        service = self.service
        uid = service.start(
            service.uids[:3],
            self.uid(number),
            declared=declared,
            event_links=[self.uid(other) for other in links],
            unit=tuple(unit.split("/")) if unit else (),
        )
        self._watch(service.brokers[uid], number)
        service.run(START_S)

    def uid(self, number: int) -> str:
        """The uid of a broker, started or not."""
        return self.uids.setdefault(number, f"{number:012x}" + "0" * 20)

    def _watch(self, broker: WholeBroker, number: int) -> None:
        take, numbers = broker.stack.take, {self.uid(n): n for n in range(1, 64)}

        def noted(line: Line, frames: FrameRun) -> Iterator[None]:
            self.over[numbers[line.peer.uid], number] += 1
            return take(line, frames)

        broker.stack.take = noted  # type: ignore[method-assign]

    def rest(self) -> None:
        """Wait until events name whom they are for."""
        self.service.rest()
        self.service.rest_units()

    @property
    def links(self) -> set[frozenset[int]]:
        """Those that events have come over, in whichever direction."""
        return {frozenset(pair) for pair in self.over}


def links_of(pairs: Iterable[tuple[int, int]]) -> set[frozenset[int]]:
    return {frozenset(pair) for pair in pairs}


def chain(declared: Sequence[bool], *, secure: bool = False) -> Overlay:
    """Brokers 1, 2, 3, ...: each names the one before it, if it or that one is declared."""
    overlay = Overlay(secure=secure)
    for number, is_declared in enumerate(declared, start=1):
        has_to = number > 1 and (is_declared or declared[number - 2])
        overlay.start(number, [number - 1] if has_to else [], declared=is_declared)
    overlay.rest()
    return overlay


@pytest.mark.parametrize("topology", [Topology.ONE, pytest.param("2", marks=pytest.mark.soak)])
def test_the_published_topologies_have_the_hops_of_their_graphs(topology: str) -> None:
    topology = Topology(topology)
    overlay, named = Overlay(), named_by(topology.links, ORDER)
    for number in ORDER:
        overlay.start(number, named[number], unit=unit_of(number))
    overlay.rest()
    service, notes = overlay.service, {}
    for number in BROKERS:
        client, notes[number] = attach(service, overlay.uid(number))
        client.subscribe("t")
    publisher, _ = attach(service, overlay.uid(PUBLISHER))
    service.run(2)
    overlay.over.clear()
    for count in range(10):
        publisher.publish("t", [b"%d" % count], NORMAL, 0)
        service.run(0.1)
    service.run(1)
    found = {number: {event.hops + 1 for event in each.events} for number, each in notes.items()}
    assert found[10] == {topology.stated_hops[10]}
    assert found == {number: {count} for number, count in hops(topology.links).items()}
    assert {len(each.events) for each in notes.values()} == {10}
    assert overlay.links <= links_of(topology.links)
    assert len(overlay.over) == len(BROKERS) - 1, "one message a broker"


@pytest.mark.parametrize("link_class", list(LinkClass))
def test_events_of_all_classes_keep_to_declared_links(link_class: LinkClass) -> None:
    overlay = chain([True] * 5, secure=link_class is LinkClass.SECURE)
    service = overlay.service
    service.subscribe_everywhere()
    service.run(2)
    service.publish(overlay.uid(1), Flowing(rate=20, link_class=link_class, park_ms=1000))
    service.run(3)
    verdict = service.finish(settle_s=1)
    assert (verdict.findings, verdict.lost) == ([], {})
    assert verdict.fates[Fate.ONCE] >= 5 * 50
    assert overlay.links == links_of([(1, 2), (2, 3), (3, 4), (4, 5)])


def test_a_mixture_uses_named_links_and_those_between_two_that_are_not_declared() -> None:
    overlay = chain([True, True, False, False, False])
    service = overlay.service
    service.subscribe_everywhere()
    service.run(2)
    for number in (1, 5):
        service.publish(overlay.uid(number), Flowing(rate=20))
    service.run(3)
    verdict = service.finish(settle_s=1)
    assert (verdict.findings, verdict.lost) == ([], {})
    assert verdict.fates[Fate.ONCE] >= 2 * 5 * 50
    into_declared = {pair for pair in overlay.links if pair & {1, 2}}
    assert into_declared == links_of([(1, 2), (2, 3)])


def test_no_link_carries_events_between_a_declared_broker_and_others_unless_it_is_named() -> None:
    overlay = Overlay()
    overlay.start(1, declared=True)
    overlay.start(2, declared=False)
    overlay.start(3, declared=False)
    service = overlay.service
    service.rest()
    service.run(12)
    notes: dict[int, Reader] = {}
    for number in (1, 2, 3):
        client, notes[number] = attach(service, overlay.uid(number))
        client.subscribe("t")
    service.run(2)
    publishers = [attach(service, overlay.uid(number))[0] for number in (1, 2)]
    service.run(1)
    for publisher in publishers:
        publisher.publish("t", [b"x"], NORMAL, 0)
    service.run(25)
    assert [len(notes[number].payloads) for number in (1, 2, 3)] == [1, 1, 1]
    assert overlay.links == links_of([(2, 3)])
    for number, others in ((1, 2), (2, 1)):
        broker = service.brokers[overlay.uid(number)]
        assert broker.counters["events_without_link"] == 1, "given up after it has waited"
        assert len(broker.node.gateways.without_way) == others, "and its status says so"


def test_events_wait_for_a_declared_link_that_is_lost_although_the_ring_goes_round_it() -> None:
    overlay = chain([True] * 5)
    service = overlay.service
    notes: dict[int, Reader] = {}
    for number in (1, 5):
        client, notes[number] = attach(service, overlay.uid(number))
        client.subscribe("t")
    publisher, _ = attach(service, overlay.uid(1))
    service.run(2)
    some, others = [overlay.uid(2)], [overlay.uid(3)]
    service.part([some, others], Cut.CLOSED)
    service.run(2)
    for count in range(20):
        publisher.publish("t", [b"%d" % count], NORMAL, 0)
        service.run(0.2)
    assert len(notes[1].payloads) == 20
    assert len(notes[5].payloads) == 0, "no other link is taken"
    service.heal()
    service.run(12)
    assert [int(payload) for payload in notes[5].payloads] == list(range(20))
    assert overlay.links == links_of([(1, 2), (2, 3), (3, 4), (4, 5)])


def test_events_that_no_declared_link_leads_on_for_are_given_up_with_a_count() -> None:
    overlay = chain([True] * 4)
    service = overlay.service
    client, notes = attach(service, overlay.uid(4))
    client.subscribe("t")
    publisher, _ = attach(service, overlay.uid(1))
    service.run(2)
    some, others = [overlay.uid(2)], [overlay.uid(3)]
    service.part([some, others], Cut.CLOSED)
    service.run(3)
    for _ in range(7):
        publisher.publish("t", [b"x"], NORMAL, 0)
    service.run(25)
    assert notes.payloads == []
    given_up = sum(b.counters["events_without_link"] for b in service.brokers.values())
    assert given_up == 7
    assert overlay.links <= links_of([(1, 2), (2, 3), (3, 4)])
    source = service.brokers[overlay.uid(1)]
    assert source.node.losses.cut_off[0] == 2, "its status says so"
    assert len(source.node.gateways.without_way) == 2


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.soak) for s in (2, 3, 4))])
def test_nothing_is_lost_while_units_of_a_mixture_form(seed: int) -> None:
    """Before units are known events go to all: over arcs of the ring, and over named links."""
    overlay = Overlay(4, seed=seed)
    service = overlay.service
    named = {2: [1], 3: [2], 4: [3], 5: [4]}
    notes: dict[int, Reader] = {}
    for number in range(1, 10):
        # The declared ones reach each other inside their unit, as its events do not leave it.
        unit = "x/y/z" if number <= 4 else ""
        overlay.start(number, named.get(number, ()), declared=number <= 3, unit=unit)
        client, notes[number] = attach(service, overlay.uid(number))
        client.subscribe("t")
    publishers = {number: attach(service, overlay.uid(number))[0] for number in (1, 6)}
    service.run(1)
    was_named = [b.node.gateways.is_for_all for b in service.brokers.values()]
    for count in range(60):
        for number, publisher in publishers.items():
            publisher.publish("t", [b"%d %d" % (number, count)], NORMAL, 0)
        service.run(0.2)
    service.run(15)
    assert not all(was_named), "the first events went to all"
    assert all(b.node.gateways.is_for_all for b in service.brokers.values())
    expected = sorted(b"%d %d" % (number, count) for number in publishers for count in range(60))
    for number, each in notes.items():
        assert sorted(each.payloads) == expected, f"at broker {number}"
    into_declared = {pair for pair in overlay.links if pair & {1, 2, 3}}
    assert into_declared == links_of([(1, 2), (2, 3), (3, 4)])


def test_a_named_link_is_made_again_when_its_broker_has_restarted() -> None:
    overlay = chain([True] * 3)
    service = overlay.service
    for uid in (overlay.uid(1), overlay.uid(3)):
        assert overlay.uid(2) in service.brokers[uid].node.declared.named
    service.leave(overlay.uid(2))
    service.run(8)
    assert service.brokers[overlay.uid(3)].node.declared.links[0][1] is None
    overlay.start(2, [1])
    service.run(15)
    client, notes = attach(service, overlay.uid(3))
    client.subscribe("t")
    publisher, _ = attach(service, overlay.uid(1))
    service.run(12)
    overlay.over.clear()
    publisher.publish("t", [b"x"], NORMAL, 0)
    service.run(1)
    assert notes.payloads == [b"x"]
    assert overlay.links == links_of([(1, 2), (2, 3)])
