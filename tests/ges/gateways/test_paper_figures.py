"""The figures and tables of the papers that are about gateways and routes, each by its name.

P0 is *Grid Event Service protocols*, P2 the long report on the Grid Event Service. The figures
themselves are not in the texts that we have: what a test assumes of one, it says. Brokers tell of
their links as they do in an overlay, and what a broker knows follows from that.

Others are in ``tests/ges/profiles/test_vectors.py`` (figures 8 and 9 of P0, and sections of P1),
``tests/ges/order/test_flow_order.py`` (tables 2 and 3, figure 12) and ``test_losses.py`` (section
9.6 of P2 with its figure 10).
"""

from __future__ import annotations

import pytest

from ges.gateways.costs import LEVEL_NS, matrix
from ges.gateways.graph import TIE_BITS, Graph, level_of
from ges.gateways.next_hops import NextHops, bits
from ges.gateways.paths import Paths
from ges.routing.entering import Entering
from ges.routing.mask_plan import MaskPlan
from ges.units.address import LEVELS, Address
from ges.wire.events import Duty, Head
from ges.wire.gateway_messages import LinkState
from ges.wire.levels import pack_upper, read_upper
from ges.wire.matter import Matter
from overlay.ids import LinkClass
from tests.ges.gateways.networks import Network, Place, Stand, graph_at, network

NORMAL = LinkClass.NORMAL

# ── P0, figures 5 to 7 and 10: SSC-A has SC-1 (clusters a, b, c), SC-2, SC-3 and SC-4 ──────────

N4, N5, N6 = 4, 5, 6
A, B = 64 + 1, 64 + 2
SC1, SC2, SC3, SC4 = (128 + number for number in (1, 2, 3, 4))
SSC_B, SSC_C, SSC_D = (192 + number for number in (1, 2, 3))
C6: Place = (0, 1, 3, 6)
N99: Place = (0, 4, 0, 35)  #: broker 99 of SC-4; a slot is below 64 here

STATED = [
    ("0.1.3.5", "0.2.0.0"),  # 5 is the super-cluster gateway to SC-2
    ("0.1.3.4", "0.1.2.0"),  # 4 is the cluster gateway to b
    ("0.3.0.0", "0.2.0.1"),  # SC-3 and SC-2
    ("0.3.0.0", "0.1.2.1"),  # SC-3 and cluster b
    ("0.3.7.0", "1.0.0.0"),  # cluster g of SC-3 and SSC-B
    ("0.1.1.0", "1.0.0.0"),  # cluster a and SSC-B
    ("1.0.0.0", "3.0.0.0"),  # SSC-B and SSC-D ...
    ("1.0.0.1", "3.0.0.1"),  # ... twice
]
ASSUMED = [
    *(("0.1.3.6", "0.1.3.4"), ("0.1.3.6", "0.1.3.5"), ("0.1.3.4", "0.1.3.5")),
    ("0.1.1.0", "0.1.2.0"),  # a and b
]
FIGURE_5 = network([*STATED, *ASSUMED])
FIGURE_7 = network([*STATED, *ASSUMED, ("0.1.3.6", "0.4.0.35")])


def edges(graph: Graph, lowest: int = 0) -> dict[tuple[int, int], int]:
    """Return the edges between nodes of a level and above, with the papers' costs."""
    return {
        (a, b): (weight >> TIE_BITS) // LEVEL_NS
        for a in graph.adjacent
        for b, weight in graph.near(a).items()
        if a < b and min(level_of(a), level_of(b)) >= lowest
    }


def test_p0_table_1() -> None:
    """c(i, j) = i + j."""
    rows = [[matrix(i, j) for j in range(4)] for i in range(4)]
    assert rows == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]]


def test_p0_figures_5_and_6_the_graph_at_ssc_a_sc_1_c_6() -> None:
    """Assumed: the edges 6-4, 6-5 and 4-5, and a-b."""
    assumed = {(N4, N6): 0, (N5, N6): 0, (N4, N5): 0, (A, B): 2}
    stated = {
        **{(N5, SC2): 2, (N4, B): 1, (SC2, SC3): 4, (B, SC3): 3},
        **{(SC3, SSC_B): 5, (A, SSC_B): 4, (SSC_B, SSC_D): 6},
    }
    assert edges(graph_at(FIGURE_5, C6)) == stated | assumed
    assert FIGURE_5.known_at(C6).links[SSC_B, SSC_D] == 2


def test_p0_figure_6_neighbours_below_and_above() -> None:
    graph = graph_at(FIGURE_5, C6)
    assert bits(graph.lateral_and_below(SC3)) == [B, SC2]
    assert bits(graph.above(SC3)) == [SSC_B]
    costs = edges(graph)
    valid = {a: costs[a, SSC_B] for a in bits(graph.lateral_and_below(SSC_B)) if a < SSC_B}
    assert valid | {SSC_D: costs[SSC_B, SSC_D]} == {A: 4, SC3: 5, SSC_D: 6}


@pytest.mark.parametrize(
    ("to", "hop", "cost"),
    [
        *((N4, N4, 0), (N5, N5, 0), (B, N4, 1), (SC2, N5, 2), (A, N4, 3)),
        (SC3, N4, 4),  # by b, and not by SC-2, which would cost 6
        *((SSC_B, N4, 7), (SSC_D, N4, 13)),
    ],
)
def test_p0_figure_6_best_hops_and_costs_from_6(to: int, hop: int, cost: int) -> None:
    paths = Paths(graph_at(FIGURE_5, C6), N6)
    found = paths.cost_ns(to)
    assert found is not None
    assert (paths.next_hop[to], found // LEVEL_NS) == (hop, cost)


def test_p0_figure_5_a_connection_is_announced_in_its_context_and_rewritten_on_the_way() -> None:
    """(5, SC-2, 2): in c as it is, in SC-1 as one of c, and outside SSC-A not at all."""
    gates = [(gate.node, gate.count) for gate in _state_of(FIGURE_5, (0, 1, 3, 5)).gates]
    assert gates == [(SC2, 1)]
    of_c = [edge.node for edge in FIGURE_5.edges((0, 1, 3))]
    assert of_c == [B, SC2], "told to b, and to a unchanged"
    assert (64 + 3, SC2) in FIGURE_5.known_at((0, 1, 2, 0)).links
    of_ssc_a = [edge.node for edge in FIGURE_5.edges((0,))]
    assert of_ssc_a == [SSC_B], "nothing of level 2 goes over the gateways of a and g"


def _state_of(of: Network, broker: Place) -> LinkState:
    state = of.states(broker[:3]).get(str(broker))
    assert state is not None
    return state


def test_p0_figure_7a_sc_4_is_linked_to_6() -> None:
    """It adds 6-SC-4, of cost 2. Nothing else changes, and no other entry of the routing cache."""
    before, after = graph_at(FIGURE_5, C6), graph_at(FIGURE_7, C6)
    assert edges(after) == edges(before) | {(N6, SC4): 2}
    table = NextHops(N6)
    table.update(before)
    kept = table.onward(1 << N4 | 1 << B | 1 << SC2 | 1 << SSC_B)
    moves = table.update(after)
    assert moves.changed == 1 << SC4, "of levels 2 and 3 only, as it is of level 2"
    assert table.onward(1 << N4 | 1 << B | 1 << SC2 | 1 << SSC_B) is kept


def test_p0_figure_7b_the_graph_at_sc_4_99() -> None:
    """Levels 2 and up. What was a-SSC-B at 6 is SC-1-SSC-B here."""
    graph = graph_at(FIGURE_7, N99)
    between = {(SC1, SC2): 4, (SC1, SC3): 4, (SC2, SC3): 4}
    upward = {(SC1, SSC_B): 5, (SC3, SSC_B): 5, (SSC_B, SSC_D): 6}
    assert edges(graph, lowest=2) == between | upward
    assert edges(graph)[35, SC1] == 2
    assert FIGURE_7.known_at(N99).links[SSC_B, SSC_D] == 2


@pytest.mark.parametrize(("to", "cost"), [(SC1, 2), (SC2, 6), (SC3, 6), (SSC_B, 7), (SSC_D, 13)])
def test_p0_figure_7b_costs_from_99(to: int, cost: int) -> None:
    found = Paths(graph_at(FIGURE_7, N99), 35).cost_ns(to)
    assert found is not None
    assert found // LEVEL_NS == cost


def test_p0_figure_10_a_change_of_a_profile_goes_to_nodes_with_an_edge_upwards() -> None:
    """At 6: in c to 4; from there to 5 and a node of b; from 5 to those of a, SC-3 and SC-2.

    Assumed: SC-2 has a link to SSC-C. Here all brokers of a context hold a statement (decision
    0056), these nodes among them; the graph says which they are.
    """
    graph = graph_at(network([*STATED, *ASSUMED, ("0.2.0.2", "2.0.0.0")]), C6)

    def gatekeepers(level: int) -> list[int]:
        mask = (1 << 64) - 1 << 64 * level
        below = [at for at in sorted(graph.adjacent) if level_of(at) < level]
        return [at for at in below if graph.above(at) & mask]

    assert gatekeepers(1) == [N4]
    assert gatekeepers(2) == [N5, B]
    assert gatekeepers(3) == [A, SC2, SC3]


# ── P0, figure 11, and P2, 8.3 and 9.7.8: what an event says of where it has been ──────────────


def trace_of(*levels: tuple[int, ...]) -> int:
    """Return a trace; ``levels``: numbers of units, those of level 3 first."""
    return sum(1 << 64 * (3 - at) + number for at, each in enumerate(levels) for number in each)


def read(trace: int) -> list[list[int]]:
    """Return the numbers of the units in a trace, from level 3 to 0."""
    return [bits(trace >> 64 * level & (1 << 64) - 1) for level in (3, 2, 1, 0)]


def test_p0_figure_11_a_trace_is_read_level_by_level() -> None:
    """e{1,3,4,9}{b,d,g}{C,E} at 7.k.C: super-clusters b, d, g are 2, 4, 7; clusters C, E 3, 5.

    With a level-3 gateway from 1 to 2 it says nothing about 2: that is not in it.
    """
    trace = trace_of((1, 3, 4, 9), (2, 4, 7), (3, 5))
    _, got, _, _ = read_upper(pack_upper(0, trace, 0, 0), 0)
    assert read(got) == [[1, 3, 4, 9], [2, 4, 7], [3, 5], []]
    assert not got >> 192 + 2 & 1


# Units A, B, C and D are 0 to 3; D has SC-10 and SC-11. The links as in figure 10 of P2, without
# [n,x]: assumed is A-B, and one cluster in each super-cluster.
X: Place = (3, 10, 0, 0)
SOURCE: Place = (1, 0, 0, 1)
LINKS = [
    ("0.0.0.1", "1.0.0.1"),  # A-B, assumed
    ("0.0.0.1", "0.0.0.0"),
    ("0.0.0.0", "2.0.0.0"),  # [d,p], A-C
    ("2.0.0.0", "2.0.0.1"),
    ("2.0.0.1", "3.11.0.0"),  # [u,z], C-D.SC-11
    ("3.11.0.0", "3.10.0.1"),  # [z,w], SC-11-SC-10
    ("3.10.0.1", "3.10.0.0"),  # w and x
]
N_X = ("1.0.0.0", "3.10.0.0")


def nobody(matter: Matter) -> int:
    """Nobody wants anything: the event is for one broker."""
    return 0


def way(of: Network, source: Place, to: Place) -> list[tuple[Place, Duty]]:
    """Return the brokers that an event for one broker comes to, each with what it is to do."""
    d, c, b, a = to
    address = Address((d, c, b, a)).packed
    here, duty = source, Duty(LEVELS, 0, Stand(of, source).toward(address), 0, address + 1)
    found = []
    while here != to:
        stand = Stand(of, here)
        split = MaskPlan(stand, NORMAL, {}).split(duty)
        assert split.stuck == 0
        ((uid, duty),) = split.onward
        here = next(each for each in of.brokers if str(each) == uid)
        if duty.entering:
            head = Head(NORMAL, 0, 0, 0, 0, duty, bytes(16), 1, 1, 0, b"t")
            duty = Entering(Stand(of, here), nobody).duty(head)
        found.append((here, duty))
    return found


def test_p2_9_7_8_the_trace_of_an_event_from_b_to_x() -> None:
    """From B by A, C, [u,z] into D.SC-11, and [w,z] into SC-10, at x: e{B,A,C}{11,10}{x}.

    A unit is stamped here when it is left, and everybody knows its own ones: both together are the
    paper's {B,A,C,D}{11,10}{x}, as it is with stamps on entry.
    """
    passed = way(network(LINKS), SOURCE, X)
    assert [at[0] for at, _ in passed] == [0, 0, 2, 2, 3, 3, 3]
    at_x, duty = passed[-1]
    assert at_x == X
    assert read(duty.trace) == [[0, 1, 2], [11], [], [1]]
    assert read(duty.trace | Stand(network(LINKS), X).own) == [[0, 1, 2, 3], [10, 11], [0], [0, 1]]


def test_p2_9_7_8_what_is_left_clears_what_is_below() -> None:
    """Leaving SC-10 clears its brokers; leaving D clears {11,10} as well."""
    whole = network([*LINKS, N_X])
    w = MaskPlan(Stand(whole, (3, 10, 0, 1)), NORMAL, {})
    ((_, duty),) = w.split(Duty(LEVELS, 0, 1 << 128 + 11, trace_of((0,), (), (), (0,)))).onward
    assert read(duty.trace) == [[0], [10], [], []]
    x = MaskPlan(Stand(whole, X), NORMAL, {})
    ((_, duty),) = x.split(Duty(LEVELS, 0, 1 << 192 + 1, trace_of((0,), (11,), (), (1,)))).onward
    assert read(duty.trace) == [[0, 3], [], [], []]


@pytest.mark.parametrize("to", [0, 1, 2], ids=["A", "B", "C"])
def test_p2_9_7_8_back_to_b_a_or_c_never(to: int) -> None:
    """x has a gateway to B, and B is in the trace: an event for one of the three waits."""
    passed = way(network(LINKS), SOURCE, X)
    _, duty = passed[-1]
    plan = MaskPlan(Stand(network([*LINKS, N_X]), X), NORMAL, {})
    split = plan.split(duty._replace(destinations=1 << 192 + to))
    assert (split.onward, split.stuck) == ((), 1 << 192 + to)
