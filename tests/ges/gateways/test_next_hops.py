"""The routing cache, and what it makes of whole clusters."""

from __future__ import annotations

import random
import timeit

import pytest

from ges.gateways.graph import Graph, Link
from ges.gateways.next_hops import MAX_DECISIONS, MAX_DETOURS, Moves, NextHops, bits
from tests.ges.gateways.graphs import chord_ring, random_graph, spread, steiner, tables_of


def ways(*links: tuple[int, int, int]) -> Graph:
    """Return a graph of these edges and costs."""
    return Graph(Link(a, b, cost, a * 64 + b) for a, b, cost in links)


def hops_of(table: NextHops, *destinations: int, trace: int = 0) -> dict[int, list[int]]:
    """Return which destinations each next hop is to serve."""
    mask = sum(1 << each for each in destinations)
    return {hop: bits(served) for hop, served in table.onward(mask, trace).hops}


def test_each_destination_goes_to_exactly_one_next_hop() -> None:
    table = NextHops(0)
    assert table.update(ways((0, 2, 1), (0, 4, 1), (2, 9, 1), (4, 5, 1), (4, 9, 5))) == Moves(
        1 << 2 | 1 << 4 | 1 << 5 | 1 << 9, 1 << 2 | 1 << 4
    )
    assert hops_of(table, 2, 5, 9) == {2: [2, 9], 4: [5]}
    assert hops_of(table, 0, 5) == {4: [5]}
    assert hops_of(table) == {}


def test_what_cannot_be_reached_is_stuck() -> None:
    table = NextHops(0)
    table.update(ways((0, 2, 1), (3, 4, 1)))
    decision = table.onward(0b11101)
    assert (decision.hops, decision.stuck) == (((2, 0b100),), 0b11000)
    assert table.reached == 0b100
    table.update(ways((0, 2, 1), (3, 4, 1), (2, 3, 1)))
    assert table.onward(0b11101).stuck == 0


def test_a_change_that_alters_no_next_hop_drops_no_cached_decision() -> None:
    table = NextHops(0)
    links = [(0, 1, 10), (1, 2, 10), (0, 3, 10), (2, 3, 50)]
    table.update(ways(*links))
    kept = [table.onward(mask) for mask in range(2, 16, 2)]
    assert table.update(ways(*links[:3], (2, 3, 40))) == Moves()
    assert all(table.onward(mask) is held for mask, held in zip(range(2, 16, 2), kept, strict=True))


def test_only_entries_with_a_changed_bit_go() -> None:
    table = NextHops(0)
    table.update(ways((0, 1, 10), (1, 2, 10), (0, 3, 10), (2, 3, 50)))
    by_mask = {mask: table.onward(mask) for mask in range(2, 16, 2)}
    assert table.update(ways((0, 1, 10), (1, 2, 10), (0, 3, 10), (2, 3, 5))) == Moves(0b100, 0b1000)
    assert table.cached == 3
    for mask, held in by_mask.items():
        assert (table.onward(mask) is held) is not bool(mask & 0b100)
    assert hops_of(table, 2) == {3: [2]}


def test_where_the_next_hop_is_in_the_trace_the_second_best_is_taken() -> None:
    table = NextHops(0)
    table.update(ways((0, 1, 1), (1, 5, 1), (0, 2, 3), (2, 5, 3), (0, 3, 9), (3, 5, 9), (0, 6, 1)))
    assert hops_of(table, 5, 6) == {1: [5], 6: [6]}
    decision = table.onward(1 << 5 | 1 << 6, 0b10)
    assert dict(decision.hops) == {2: 1 << 5, 6: 1 << 6}
    assert decision.strayed == 0b110  # the way left and the way taken, not that to 6
    assert hops_of(table, 5, 6, trace=0b110) == {3: [5], 6: [6]}
    assert table.onward(1 << 5, 0b1110).stuck == 1 << 5
    assert table.onward(1 << 5, 1 << 40).strayed == 0
    assert table.onward(1 << 5, 0b1) == table.onward(1 << 5)  # its own bit is no detour


def test_a_detour_avoids_the_trace_all_the_way() -> None:
    """Of the ways without 1 the nearest leads by 4, which has been passed, too."""
    table = NextHops(0)
    table.update(ways((0, 1, 1), (1, 9, 1), (0, 2, 1), (2, 4, 1), (4, 9, 1), (0, 3, 5), (3, 9, 5)))
    assert hops_of(table, 9, trace=0b10) == {2: [9]}
    assert hops_of(table, 9, trace=0b10010) == {3: [9]}


def test_express_events_leave_the_express_graph_only_where_it_ends() -> None:
    express = ways((0, 1, 9), (1, 2, 9))
    normal = ways((0, 1, 9), (1, 2, 9), (0, 2, 1), (2, 3, 1), (0, 4, 1), (1, 4, 1))
    table = NextHops(0)
    table.update(express, normal)
    decision = table.onward(1 << 2 | 1 << 3 | 1 << 4)
    assert dict(decision.hops) == {1: 1 << 2, 2: 1 << 3, 4: 1 << 4}
    assert decision.rough == 1 << 2 | 1 << 4
    moves = table.update(ways((0, 1, 9), (1, 2, 9), (0, 4, 1)), normal)
    assert moves == Moves()
    assert table.onward(1 << 2 | 1 << 3 | 1 << 4).rough == 1 << 2


def test_mixed_express_paths_end() -> None:
    """Normal hops up to the part of the express graph that the destination is in, then express."""
    rng = random.Random(3)
    for _ in range(100):
        n = rng.randrange(4, 20)
        normal = random_graph(n, n, rng)
        express = Graph(
            Link(a, b, 1000 + rng.randrange(9), rng.getrandbits(56))
            for a in range(n)
            for b in normal.near(a)
            if a < b and rng.random() < 0.4
        )
        tables = [NextHops(own) for own in range(n)]
        for table in tables:
            table.update(express, normal)
        for to in range(n):
            at, is_inside = (to + 1) % n, False
            for _ in range(n):
                decision = tables[at].onward(1 << to)
                if at == to:
                    break
                ((hop, _),) = decision.hops
                is_express = bool(express.adjacent.get(at, 0) >> hop & 1)
                assert decision.rough == (0 if is_express else 1 << hop)
                only_express = NextHops(at)
                only_express.update(express)
                is_inside = is_inside or bool(only_express.reached >> to & 1)
                assert is_express or not is_inside
                at = hop
            assert at == to


def test_secure_events_use_secure_links_alone() -> None:
    table = NextHops(0)
    table.update(ways((0, 1, 9)))
    decision = table.onward(0b110)
    assert (dict(decision.hops), decision.stuck) == ({1: 0b10}, 0b100)


@pytest.mark.parametrize("n", [2, 3, 8, 32, 64])
def test_n_minus_1_messages_when_all_are_interested(n: int) -> None:
    rng = random.Random(n)
    for buckets in (1, 4):
        tables = tables_of(chord_ring(n, rng, buckets), n)
        for source in range(n):
            sent, got, stuck = spread(tables, source, (1 << n) - 1)
            assert (sent, stuck) == (n - 1, 0)
            assert got == dict.fromkeys(range(n), 1)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_up_to_five_brokers_one_message_and_one_hop_for_each_interested(n: int) -> None:
    rng = random.Random(n)
    full = Graph(Link(a, b, 50_000, rng.getrandbits(56)) for a in range(n) for b in range(a + 1, n))
    for source, table in enumerate(tables_of(full, n)):
        for mask in range(1 << n):
            assert table.onward(mask).hops == tuple(
                (each, 1 << each) for each in bits(mask) if each != source
            )


#: Messages over the tree that is nearly the smallest, at most. Shortest paths share less than a
#: Steiner tree does: 1.45 was measured at 64 brokers, a quarter of them interested.
BARS = {100: 1.0, 50: 1.3, 25: 1.5, 10: 1.5, 1: 1.7}


@pytest.mark.parametrize("n", [8, 32, pytest.param(64, marks=pytest.mark.soak)])
@pytest.mark.parametrize("percent", BARS)
def test_messages_over_the_minimum_tree(n: int, percent: int) -> None:
    rng = random.Random(n * 100 + percent)
    graph = chord_ring(n, rng)
    tables = tables_of(graph, n)
    messages = least = 0
    for _ in range(30):
        source = rng.randrange(n)
        interested = [at for at in range(n) if at != source and rng.random() * 100 < percent]
        interested = interested or [(source + rng.randrange(1, n)) % n]
        mask = sum(1 << at for at in interested)
        sent, got, stuck = spread(tables, source, mask)
        assert (got, stuck) == (dict.fromkeys(interested, 1), 0)
        messages += sent
        least += steiner(graph, source, mask)
    assert least <= messages <= BARS[percent] * least


def test_no_copy_passes_a_broker_twice_between_two_computations() -> None:
    rng = random.Random(11)
    for _ in range(60):
        n = rng.randrange(2, 40)
        tables = tables_of(random_graph(n, rng.randrange(2 * n), rng), n)
        for _ in range(20):
            source, mask = rng.randrange(n), rng.getrandbits(n)
            _, got, stuck = spread(tables, source, mask)
            assert (got, stuck) == (dict.fromkeys(bits(mask), 1), 0)


def test_while_tables_differ_loops_end_by_trace() -> None:
    """Each destination gets the event once, or is stuck somewhere: nothing is lost or doubled."""
    rng = random.Random(12)
    strays = stuck_ever = 0
    for _ in range(300):
        n = rng.randrange(3, 20)
        graphs = [random_graph(n, rng.randrange(n), rng) for _ in range(3)]
        tables = [NextHops(own) for own in range(n)]
        for table in tables:
            table.update(rng.choice(graphs))
        for _ in range(10):
            source, mask = rng.randrange(n), rng.getrandbits(n)
            _, got, stuck = spread(tables, source, mask)
            assert not stuck & sum(1 << at for at in got)
            assert stuck | sum(1 << at for at in got) == mask
            assert set(got.values()) <= {1}
            stuck_ever += bool(stuck)
            strays += sum(bool(table._detours) for table in tables)
    assert strays > 0 < stuck_ever


def test_what_is_kept_is_limited() -> None:
    table = NextHops(0)
    table.update(ways((0, 1, 1), (1, 5, 1), (0, 2, 3), (2, 5, 3)))
    for mask in range(MAX_DECISIONS + 10):
        table.onward(mask << 1)
    assert table.cached == MAX_DECISIONS
    for trace in range(MAX_DETOURS + 10):
        assert dict(table.onward(1 << 5, 0b10 | trace << 8).hops) == {2: 1 << 5}
    assert len(table._detours) <= MAX_DETOURS
    assert len(table._tables) <= MAX_DETOURS


def test_a_cached_decision_takes_about_a_microsecond() -> None:
    """The bar leaves room for a machine with much else to do."""
    rng = random.Random(2)
    table = tables_of(chord_ring(64, rng), 64)[0]
    mask = rng.getrandbits(64)
    table.onward(mask)
    took = min(timeit.repeat(lambda: table.onward(mask, 1), number=2000, repeat=20)) / 2000
    assert took < 5e-6


def test_a_path_is_the_way_that_copies_take_from_hop_to_hop() -> None:
    graph = ways((0, 2, 1), (0, 4, 1), (2, 9, 1), (4, 5, 1), (4, 9, 5))
    table = NextHops(0)
    table.update(graph)
    assert table.path(9) == ((2, True), (9, True))
    assert table.path(5) == ((4, True), (5, True))
    assert table.path(0) == table.path(7) == ()
    table.update(ways((0, 2, 1), (2, 4, 1), (4, 5, 1)))
    assert table.path(5) == ((2, True), (4, True), (5, True))


def test_a_path_of_express_events_says_which_links_are_not_express() -> None:
    table = NextHops(0)
    table.update(ways((2, 9, 1)), ways((0, 2, 1), (2, 9, 3), (9, 5, 1)))
    assert table.path(9) == ((2, False), (9, True))
    assert table.path(5) == ((2, False), (9, True), (5, False))
