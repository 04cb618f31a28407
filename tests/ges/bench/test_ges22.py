"""The published experiment: its topologies as graphs, its plan, and what is told of samples."""

from __future__ import annotations

import csv
import statistics
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from ges.bench.conditions import Conditions
from ges.bench.ges22.clients import Played
from ges.bench.ges22.experiment import Results
from ges.bench.ges22.files import rows, save
from ges.bench.ges22.overlay import ORDER, problems_of
from ges.bench.ges22.plan import (
    FLAT_OUT,
    HALF,
    LONGEST_SECONDS,
    MATCHES,
    Cell,
    cells,
    seconds_of,
    topic,
    topic_filter,
    value_wanted,
    values_of,
)
from ges.bench.ges22.plots import draw
from ges.bench.ges22.samples import Taken
from ges.bench.ges22.topology import (
    BROKERS,
    CROWD,
    PUBLISHER,
    UNITS,
    Topology,
    crowd,
    hops,
    named_by,
    unit_of,
)
from ges.wire.topics import check_filter, check_topic


def test_there_are_22_brokers_and_100_clients_beside_publisher_and_measuring_subscriber() -> None:
    assert tuple(range(1, 23)) == BROKERS
    assert CROWD * len(crowd()) + 2 == 102
    assert len(Topology.ONE.links) == 26
    assert len(Topology.TWO.links) == len(set(map(frozenset, Topology.TWO.links))) == 28
    assert {"SC-5", "SC-6"} < {super_cluster for super_cluster, _ in UNITS}
    assert len({unit_of(number) for number in BROKERS}) == 8


@pytest.mark.parametrize(
    ("topology", "stated"), [(Topology.ONE, {10: 9}), (Topology.TWO, {10: 4, 1: 2, 22: 1})]
)
def test_an_event_passes_as_many_brokers_as_the_paper_states(
    topology: Topology, stated: dict[int, int]
) -> None:
    found = hops(topology.links)
    assert found.keys() == set(BROKERS), "all are reached"
    assert {number: found[number] for number in topology.measured} == stated
    assert topology.stated_hops == stated


def test_each_unit_holds_together_by_its_own_links() -> None:
    """No event leaves a unit and comes back."""
    super_clusters = {name: [c for c in UNITS if c[0] == name] for name, _ in UNITS}
    whole = [UNITS[unit] for unit in UNITS]
    whole += [tuple(n for c in inside for n in UNITS[c]) for inside in super_clusters.values()]
    for members in whole:
        inside = [link for link in Topology.ONE.links if set(link) <= set(members)]
        assert hops(inside, members[0]).keys() == set(members)


@pytest.mark.parametrize("topology", list(Topology))
def test_each_link_is_named_once_by_the_end_that_starts_later(topology: Topology) -> None:
    named = named_by(topology.links, ORDER)
    pairs = [frozenset((number, other)) for number, others in named.items() for other in others]
    assert sorted(map(sorted, pairs)) == sorted(map(sorted, topology.links))
    assert named[PUBLISHER] == [], "it starts first"


@pytest.mark.parametrize("match", MATCHES)
@pytest.mark.parametrize("topology", list(Topology))
def test_each_client_gets_its_share_and_each_event_goes_to_its_share_of_brokers(
    match: int, topology: Topology
) -> None:
    assert values_of(match) * match == 100
    taking = {*crowd(), *topology.measured}
    wanted = Counter(value_wanted(number, match, topology) for number in taking)
    assert set(wanted) == set(range(values_of(match)))
    assert {value_wanted(number, match, topology) for number in topology.measured} == {0}
    assert max(wanted.values()) - min(wanted.values()) <= len(topology.measured)
    name, text = topic(match, 0), topic_filter(match, 0)
    assert len(check_topic(name).split("/")) == 6, "six tags"
    assert check_filter(text)
    pairs = zip(name.split("/"), topic(match, 9).split("/"), strict=True)
    differing = [at for at, (one, other) in enumerate(pairs) if one != other]
    assert differing == [3], "the fourth decides"


def test_the_points_of_the_paper_are_measured_beside_the_grid() -> None:
    found = list(cells((100, 50), (50,), (20.0, HALF), with_stated=True))
    points = {(cell.match, cell.size, cell.rate) for cell in found}
    assert {(100, 50, 1), (100, 450, 952), (50, 350, 952), (50, 50, HALF)} <= points
    assert not any(cell.match < 50 for cell in found)
    assert len({cell.number for cell in found}) == len(found)
    assert [cell.is_half for cell in found] == [cell.rate == HALF for cell in found]
    assert len(list(cells((10,), (250,), (20.0,), with_stated=False))) == 1


def test_slow_events_are_published_for_longer() -> None:
    assert seconds_of(Cell(100, 50, 20.0), 3.0) == 3.0
    assert seconds_of(Cell(10, 50, 20.0), 3.0) == 5.0, "ten of a hundred"
    assert seconds_of(Cell(10, 50, 1.0), 3.0) == LONGEST_SECONDS
    assert seconds_of(Cell(100, 50, FLAT_OUT), 2.0) == 2.0


def test_mean_variance_and_throughput_are_those_of_what_came() -> None:
    taken, times = Taken(), [3_000_000, 5_000_000, 10_000_000, 2_000_000]
    for number, each in enumerate(times):
        now = 10**18 + number * 250_000_000
        taken.note(now, now - each, 9 if number else 10)
    sample = taken.sample(10, 5)
    in_ms = [each / 1e6 for each in times]
    assert sample.mean_ms == statistics.fmean(in_ms) == 5.0
    assert sample.variance_ms2 == statistics.pvariance(in_ms)
    assert (sample.lowest_ms, sample.median_ms, sample.highest_ms) == (2.0, 4.0, 10.0)
    assert sample.p99_ms == 9.85
    assert sample.received_per_s == 4.0
    assert (sample.usual_hops, sample.received, sample.expected) == (9, 4, 5)


def test_nothing_is_told_of_what_has_not_come() -> None:
    sample = Taken().sample(10, 5)
    assert (sample.received, sample.mean_ms, sample.usual_hops) == (0, None, None)


def results(topology: Topology = Topology.ONE) -> Results:
    taken = Taken()
    for each in range(3):
        taken.note(10**18 + each * 10**9, 10**18 + each * 10**9 - 15_000_000, 9)
    conditions = Conditions(
        date="2026-11-26T00:00:00+00:00",
        chordal="0",
        python="CPython",
        system="Linux",
        processors=2,
        load_average=None,
        brokers=(),
    )
    played = tuple(
        Played(
            cell=cell,
            published=3,
            published_per_s=1.0,
            samples=tuple(taken.sample(number, 3) for number in topology.measured),
            crowd_received=0,
            crowd_expected=0,
        )
        for cell in (Cell(100, 50, 1.0), Cell(50, 50, 20.0))
    )
    return Results(
        topology=topology,
        conditions=conditions,
        saturation_per_s=100.0,
        hops=topology.stated_hops,
        played=played,
    )


def test_beside_a_figure_stands_what_the_paper_states_of_it_and_else_nothing() -> None:
    first, second = rows(results())
    assert (first.paper_mean_ms, first.paper_variance_ms2, first.paper_received_per_s) == (
        *(15.54, 2.3684, 1),
    )
    assert (second.paper_mean_ms, second.paper_received_per_s) == (13.02, None)
    others = list(rows(results(Topology.TWO)))
    assert len(others) == 6
    assert all(row.paper_mean_ms is None for row in others), "it states none of topology II"


def test_figures_and_plots_are_saved(tmp_path: Path) -> None:
    found = [results(), results(Topology.TWO)]
    as_json, as_csv = save(found, tmp_path)
    assert msgspec.json.decode(as_json.read_bytes(), type=list[Results]) == found
    with as_csv.open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 2 + 6
    assert (table[0]["mean_ms"], table[0]["paper_mean_ms"]) == ("15.0", "15.54")
    drawn = draw([row for each in found for row in rows(each)], tmp_path)
    assert {path.name for path in drawn} == {
        *("latency-1.svg", "throughput-1.svg", "latency-2.svg", "throughput-2.svg", "hops.svg"),
    }
    assert all("<svg" in path.read_text() for path in drawn)


def test_a_broker_that_does_not_answer_is_a_problem() -> None:
    found = problems_of({}, {}, Topology.ONE)
    assert found == [f"broker {number} does not answer" for number in BROKERS]
