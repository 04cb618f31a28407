"""Cheapest paths kept up to date, against networkx from scratch; and what keeping up costs."""

from __future__ import annotations

from itertools import pairwise

import networkx
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from overlay.ids import LinkClass, nanos
from overlay.multigraph.graph import Multigraph, as_networkx
from overlay.multigraph.paths import ShortestPaths
from overlay.multigraph.weights import Weights

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE
HERE = "a"
NAMES = "abcdefghij"
UIDS = st.sampled_from(NAMES)


class Noted(dict[str, int]):
    """Distances that count how often one is set: the work done."""

    count = 0

    def __setitem__(self, uid: str, distance: int) -> None:
        self.count += 1
        super().__setitem__(uid, distance)


def note(paths: ShortestPaths) -> Noted:
    noted = paths._distance = Noted(paths._distance)
    return noted


def weights(milliseconds: int) -> Weights:
    return Weights(milliseconds * nanos(0.001), 0)


def graph(*links: tuple[str, str, int]) -> Multigraph:
    made = Multigraph()
    for a, b, milliseconds in links:
        made.put(a, b, NORMAL, weights(milliseconds))
    return made


def test_a_relay_is_on_the_path_where_it_is_cheaper() -> None:
    paths = ShortestPaths(graph(("a", "b", 50), ("a", "c", 5), ("c", "b", 5)), NORMAL, "a")
    assert paths.path("b") == ("a", "c", "b")
    assert paths.path("a") == ("a",)


def test_there_is_no_path_over_links_of_another_class() -> None:
    found = graph(("a", "b", 5), ("b", "c", 5))
    found.put("a", "b", SECURE, weights(5))
    paths = ShortestPaths(found, SECURE, "a")
    assert paths.path("b") == ("a", "b")
    assert paths.path("c") is None
    assert paths.distance("c") is None


def test_a_link_that_goes_takes_the_paths_over_it_along() -> None:
    found = graph(("a", "b", 5), ("b", "c", 5), ("a", "c", 50))
    paths = ShortestPaths(found, NORMAL, "a")
    assert paths.path("c") == ("a", "b", "c")
    found.remove("a", "b", NORMAL)
    paths.update(found.take_changed(NORMAL))
    assert paths.path("c") == ("a", "c")
    assert paths.path("b") == ("a", "c", "b")


def test_a_link_that_becomes_dearer_is_left_and_what_lies_behind_it_costs_more() -> None:
    found = graph(("a", "b", 5), ("b", "c", 5), ("c", "d", 5), ("a", "c", 50))
    paths = ShortestPaths(found, NORMAL, "a")
    found.put("b", "c", NORMAL, weights(30))
    paths.update(found.take_changed(NORMAL))
    assert paths.path("d") == ("a", "b", "c", "d")
    assert paths.distance("d") == sum(found.near(x, NORMAL)[y] for x, y in ("ab", "bc", "cd"))
    found.put("b", "c", NORMAL, weights(60))
    paths.update(found.take_changed(NORMAL))
    assert (paths.path("b"), paths.path("d")) == (("a", "b"), ("a", "c", "d"))


class Changing(RuleBasedStateMachine):
    """Links come, go and change in batches; after each the tree is compared with the oracle."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = Multigraph()
        self.paths = {c: ShortestPaths(self.graph, c, HERE) for c in LinkClass}

    @initialize(costs=st.lists(st.integers(1, 40), max_size=len(NAMES) - 1))
    def begin(self, costs: list[int]) -> None:
        """A chain from here, so that changes meet paths."""
        for (a, b), cost in zip(pairwise(NAMES), costs, strict=False):
            self.graph.put(a, b, NORMAL, weights(cost))

    @rule(a=UIDS, b=UIDS, only=st.sampled_from(LinkClass), cost=st.integers(1, 40))
    def put(self, a: str, b: str, only: LinkClass, cost: int) -> None:
        if a != b and (only is NORMAL or self.graph.has(a, b, NORMAL)):
            self.graph.put(a, b, only, weights(cost))

    @precondition(lambda self: any(True for _ in self.graph.links()))
    @rule(which=st.integers(0, 200), cost=st.integers(1, 40))
    def change(self, which: int, cost: int) -> None:
        """Change a link that is there."""
        links = sorted((a, b, c) for a, b, c, _ in self.graph.links())
        self.graph.put(*links[which % len(links)], weights(cost))

    @rule(a=UIDS, b=UIDS, link_class=st.sampled_from(LinkClass))
    def remove(self, a: str, b: str, link_class: LinkClass) -> None:
        self.graph.remove(a, b, link_class)

    @rule()
    def settle(self) -> None:
        for link_class, paths in self.paths.items():
            paths.update(self.graph.take_changed(link_class))

    @invariant()
    def distances_are_the_oracles(self) -> None:
        if self.graph.is_changed:
            return
        for link_class, paths in self.paths.items():
            view = as_networkx(self.graph)
            other = [edge for edge in view.edges(keys=True) if edge[2] != link_class.value]
            view.remove_edges_from(other)
            view.add_node(HERE)
            known = networkx.single_source_dijkstra_path_length(view, HERE, weight="cost_ns")
            assert {uid: paths.distance(uid) for uid in NAMES} == {
                uid: known.get(uid) for uid in NAMES
            }
            for uid in NAMES:
                self._judge(paths, link_class, uid)

    def _judge(self, paths: ShortestPaths, link_class: LinkClass, uid: str) -> None:
        path = paths.path(uid)
        if path is None:
            return
        assert (path[0], path[-1]) == (HERE, uid)
        assert len(set(path)) == len(path), "a loop"
        steps = pairwise(path)
        cost = sum(self.graph.near(a, link_class)[b] for a, b in steps)
        assert cost == paths.distance(uid)


TestChanging = Changing.TestCase
TestChanging.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=60, max_size=60),
    st.integers(0, 59),
    st.integers(1, 200),
)
def test_a_change_costs_work_only_where_distances_change(
    costs: list[int], which: int, cost: int
) -> None:
    """A ring of 60 with links to the second neighbours as well, as brokers form it."""
    uids = [f"{n:032x}" for n in range(60)]
    found = Multigraph()
    for n, milliseconds in enumerate(costs):
        found.put(uids[n], uids[(n + 1) % 60], NORMAL, weights(milliseconds))
        found.put(uids[n], uids[(n + 2) % 60], NORMAL, weights(2 * milliseconds + 1))
    paths = ShortestPaths(found, NORMAL, uids[0])
    found.take_changed(NORMAL)
    before = {uid: (paths.distance(uid), paths.path(uid)) for uid in uids}
    noted = note(paths)
    found.put(uids[which], uids[(which + 1) % 60], NORMAL, weights(cost))
    paths.update(found.take_changed(NORMAL))
    link = {uids[which], uids[(which + 1) % 60]}

    def is_touched(uid: str) -> bool:
        distance, path = before[uid]
        assert path is not None
        steps = (set(step) for step in pairwise(path))
        return distance != paths.distance(uid) or link in steps

    assert noted.count <= sum(map(is_touched, uids))


def test_a_change_that_matters_to_no_path_costs_nothing() -> None:
    found = graph(("a", "b", 5), ("a", "c", 5), ("b", "c", 50))
    paths = ShortestPaths(found, NORMAL, "a")
    noted = note(paths)
    for milliseconds in (60, 40, 11):
        found.put("b", "c", NORMAL, weights(milliseconds))
        paths.update(found.take_changed(NORMAL))
    assert noted.count == 0
