"""The graph of secure links: who is reached, who is not, and who is gone."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.topology.secure_graph import MAX_ORIGINS, SecureGraph, describe
from ges.wire.broker_messages import SecureState

Links = set[frozenset[int]]


def uid(name: int) -> str:
    return f"{name:032x}"


def state(
    name: int,
    *linked: int,
    version: int = 1,
    incarnation: int = 1,
    withdrawn: bool = False,
    complete: bool = False,
) -> SecureState:
    """The list of broker ``name``, whose ring id is its name times ten."""
    others = tuple(uid(other) for other in linked)
    return SecureState(uid(name), incarnation, version, name * 10, others, withdrawn, complete)


def graph(name: int, *states: SecureState) -> SecureGraph:
    """What broker ``name`` knows once it has heard ``states``."""
    found = SecureGraph(uid(name))
    for heard in states:
        assert found.learn(heard)
    return found


def unreached(found: SecureGraph) -> list[int]:
    return sorted(int(state.origin, 16) for state in found.out_of_reach())


def test_a_line_is_reached_from_end_to_end() -> None:
    line = (state(1, 2), state(2, 1, 3), state(3, 2))
    assert unreached(graph(1, *line)) == []
    assert unreached(graph(3, *line)) == []


def test_a_link_counts_if_both_ends_list_it() -> None:
    one_sided = graph(1, state(1, 2), state(2))
    assert unreached(one_sided) == [2]
    assert not one_sided.reaches_anybody()
    assert one_sided.learn(state(2, 1, version=2))
    assert unreached(one_sided) == []
    assert one_sided.reaches_anybody()


def test_a_link_to_one_never_heard_of_leads_nowhere() -> None:
    assert not graph(1, state(1, 2)).reaches_anybody()


def test_the_graph_is_complete_when_everybody_says_so() -> None:
    found = graph(1, state(1, 2, complete=True), state(2, 1))
    assert not found.is_complete
    assert found.learn(state(2, 1, version=2, complete=True))
    assert found.is_complete
    assert found.learn(state(3, version=1))
    assert not found.is_complete
    assert found.withdraw(uid(3), 1) is not None
    assert found.is_complete, "one that is gone does not count"


def test_a_change_of_completeness_alone_is_told() -> None:
    found = SecureGraph(uid(1))
    assert found.own(1, 10, (uid(2),)) is not None
    assert found.own(1, 10, (uid(2),)) is None
    told = found.own(1, 10, (uid(2),), complete=True)
    assert told is not None
    assert told.complete


def test_older_lists_are_no_news() -> None:
    found = graph(1, state(2, 1, version=5, incarnation=3))
    for old in (
        state(2, 1, version=5, incarnation=3),
        state(2, version=4, incarnation=3),
        state(2, version=9, incarnation=2),
    ):
        assert not found.learn(old)
    assert found.learn(state(2, version=1, incarnation=4))


def test_the_own_list_is_told_when_it_changes() -> None:
    found = SecureGraph(uid(1))
    first = found.own(7, 10, (uid(3), uid(2)))
    assert first is not None
    assert (first.version, first.linked) == (1, (uid(2), uid(3)))
    assert found.own(7, 10, (uid(2), uid(3))) is None
    for incarnation, ring_id, linked in ((7, 10, ()), (7, 11, ()), (8, 11, ())):
        change = found.own(incarnation, ring_id, linked)
        assert change is not None
        assert not change.withdrawn
        assert graph(2, first).learn(change)
    assert found.states == (change,)


def test_a_broker_that_is_gone_is_no_longer_missed() -> None:
    found = graph(1, state(1, 2), state(2, 1), state(3))
    assert unreached(found) == [3]
    news = found.withdraw(uid(3), 1)
    assert news is not None
    assert unreached(found) == []
    assert found.withdraw(uid(3), 1) is None, "known already"
    assert found.withdraw(uid(4), 1) is None, "never heard of"
    elsewhere = graph(2, state(3))
    assert elsewhere.learn(news)
    assert unreached(elsewhere) == []


def test_the_death_of_an_earlier_life_is_old_news() -> None:
    found = graph(1, state(3, incarnation=5))
    assert found.withdraw(uid(3), 4) is None
    assert unreached(found) == [3]


def test_one_that_comes_back_is_missed_again() -> None:
    found = graph(1, state(3))
    assert found.withdraw(uid(3), 1)
    assert found.learn(state(3, incarnation=2))
    assert unreached(found) == [3]


def test_one_taken_for_gone_though_it_lives_says_so() -> None:
    living, other = SecureGraph(uid(3)), graph(1, state(1))
    first = living.own(1, 30, ())
    assert first is not None
    assert other.learn(first)
    rumour = other.withdraw(uid(3), 1)
    assert rumour is not None
    assert living.learn(rumour)
    answer = living.own(1, 30, ())
    assert answer is not None
    assert other.learn(answer)
    assert unreached(other) == [3]
    assert living.own(1, 30, ()) is None


def test_nobody_can_be_on_an_empty_arc() -> None:
    found = graph(2, state(2), *(state(name) for name in (1, 3, 4, 5, 9)))
    gone = found.withdraw_between(20, 50)
    assert {news.origin for news in gone} == {uid(3), uid(4)}
    assert unreached(found) == [1, 5, 9]
    assert found.withdraw_between(20, 50) == []
    beyond_zero = graph(9, state(9), state(1), state(2))
    assert [news.origin for news in beyond_zero.withdraw_between(90, 20)] == [uid(1)]


def test_how_many_are_remembered_is_bounded() -> None:
    found = graph(1, *(state(name) for name in range(2, MAX_ORIGINS + 2)))
    assert not found.learn(state(MAX_ORIGINS + 2))
    assert found.learn(state(2, version=2)), "news of those known is still taken"
    assert found.is_overfull


def test_who_is_gone_makes_room() -> None:
    found = graph(1, *(state(name) for name in range(2, MAX_ORIGINS + 2)))
    assert found.withdraw(uid(7), 1) is not None
    assert found.learn(state(MAX_ORIGINS + 2))
    assert not found.is_overfull
    assert len(found.states) == MAX_ORIGINS
    assert uid(7) not in {known.origin for known in found.states}


def test_all_lists_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ges.topology.secure_graph.MAX_LISTED", 10)
    found = graph(1, state(2, 3, 4, 5, 6), state(3, 2, 4, 5, 6))
    assert not found.learn(state(4, 1, 2, 3))
    assert found.is_overfull
    assert found.learn(state(4, 2, 3))
    assert found.learn(state(2, 3, version=2))
    assert found.learn(state(5, 1, 2, 3))


def test_the_reason_names_a_few() -> None:
    text = describe(tuple(state(name) for name in range(1, 6)))
    assert "00000000 (ring id 10)" in text
    assert text.endswith("and 2 more")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[int], Links]:
    names = list(range(1, draw(st.integers(2, 9)) + 1))
    pairs = st.frozensets(st.sampled_from(names), min_size=2, max_size=2)
    return names, draw(st.sets(pairs, max_size=14))


@given(graphs(), st.data())
def test_whoever_is_in_the_component_is_reached(
    drawn: tuple[list[int], Links], data: st.DataObject
) -> None:
    names, links = drawn
    linked = {name: [other for other in names if {name, other} in links] for name in names}
    states = [state(name, *linked[name]) for name in names]
    known = {name: graph(name, *data.draw(st.permutations(states))) for name in names}
    origin = data.draw(st.sampled_from(names))

    component = {origin}
    queue = deque([origin])
    while queue:
        fresh = set(linked[queue.popleft()]) - component
        component |= fresh
        queue.extend(fresh)

    assert unreached(known[origin]) == sorted(set(names) - component)
    assert known[origin].reaches_anybody() == (len(component) > 1)
