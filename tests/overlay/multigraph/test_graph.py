"""The multigraph: parallel links of three classes, and its view in networkx."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from overlay.errors import InvariantError
from overlay.ids import LinkClass, nanos
from overlay.multigraph.cost import cost_ns
from overlay.multigraph.graph import Multigraph, as_networkx, ends
from overlay.multigraph.weights import Weights

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE
UIDS = st.sampled_from("abcdefg")
COSTS = st.integers(min_value=1, max_value=30).map(lambda n: Weights(n * nanos(0.001), 0))


def test_links_lead_both_ways() -> None:
    graph = Multigraph()
    graph.put("a", "b", NORMAL, Weights(10, 0))
    assert graph.has("b", "a", NORMAL)
    assert not graph.has("a", "b", SECURE)
    assert list(graph.links()) == [("a", "b", NORMAL, Weights(10, 0))]


@pytest.mark.parametrize("link_class", [EXPRESS, SECURE])
def test_express_and_secure_links_are_subsets_of_the_normal_ones(link_class: LinkClass) -> None:
    graph = Multigraph()
    with pytest.raises(InvariantError, match=f"no {link_class.value} link can be between a and b"):
        graph.put("a", "b", link_class, Weights(1, 0))
    graph.put("a", "b", NORMAL, Weights(1, 0))
    graph.put("a", "b", link_class, Weights(1, 0))
    assert [link[2] for link in graph.links()] == [NORMAL, link_class]


def test_nobody_is_linked_to_itself() -> None:
    with pytest.raises(InvariantError, match="BUG"):
        Multigraph().put("a", "a", NORMAL, Weights(1, 0))


def test_the_view_for_people_has_a_key_for_each_class_and_all_weights() -> None:
    graph = Multigraph()
    weights = Weights(10, 1, 2, 3, 4, 5)
    graph.put("a", "b", NORMAL, Weights(10, 0))
    graph.put("a", "b", SECURE, weights)
    view = as_networkx(graph)
    assert set(view.edges(keys=True)) == {("a", "b", "normal"), ("a", "b", "secure")}
    assert view.edges["a", "b", "secure"] == {
        "rtt_ns": 10,
        "jitter_ns": 1,
        "capacity": 2,
        "traffic": 3,
        "queued_ns": 4,
        "resets_milli": 5,
        "cost_ns": cost_ns(SECURE, weights),
    }


class Links(RuleBasedStateMachine):
    """Compares the multigraph with a plain dictionary, whatever is put in."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = Multigraph()
        self.model: dict[tuple[str, str, LinkClass], Weights] = {}

    @rule(a=UIDS, b=UIDS, link_class=st.sampled_from(LinkClass), weights=COSTS)
    def put(self, a: str, b: str, link_class: LinkClass, weights: Weights) -> None:
        key = (*ends(a, b), link_class)
        if a == b or (link_class is not NORMAL and (*ends(a, b), NORMAL) not in self.model):
            with pytest.raises(InvariantError):
                self.graph.put(a, b, link_class, weights)
        else:
            self.graph.put(a, b, link_class, weights)
            self.model[key] = weights

    @invariant()
    def the_links_are_those_put(self) -> None:
        assert {(a, b, c): w for a, b, c, w in self.graph.links()} == self.model

    @invariant()
    def express_and_secure_are_subsets(self) -> None:
        for a, b, _, _ in self.graph.links():
            assert self.graph.has(a, b, NORMAL)


TestLinks = Links.TestCase
