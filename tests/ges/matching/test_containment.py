"""Containment and overlap of filters, against every topic there is."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ges.matching.containment import covers, minimal, overlaps
from ges.matching.filter_tree import FilterTree
from ges.wire.topics import check_filter
from tests.helpers.examples import examples

#: ``z`` stands in no filter, and so for every level that none names. The empty topic is among them.
LEVELS = ("a", "b", "", "$s", "z")
TOPICS = ["/".join(levels) for n in range(1, 5) for levels in product(LEVELS, repeat=n)]

levels = st.sampled_from(["a", "b", "", "$s", "+"])
filters = st.builds(
    lambda names, rest: "/".join([*names, *rest]),
    st.lists(levels, min_size=0, max_size=3),
    st.sampled_from([[], ["#"]]),
).filter(bool)


def matched(text: str) -> set[str]:
    """Topics that the tree, with which brokers match events, finds for a filter."""
    tree: FilterTree[int] = FilterTree()
    tree.add(check_filter(text), 1)
    return {topic for topic in TOPICS if tree.matches(topic)}


@settings(max_examples=examples(300))
@given(wide=filters, narrow=filters)
@example(wide="+/#", narrow="#")
@example(wide="a/#", narrow="a")
@example(wide="a/+/#", narrow="a/#")
@example(wide="#", narrow="$s/a")
@example(wide="+", narrow="$s")
@example(wide="$s/#", narrow="#")
def test_against_every_topic(wide: str, narrow: str) -> None:
    broad, tight = matched(wide), matched(narrow)
    assert covers(wide, narrow) == (tight <= broad)
    assert overlaps(wide, narrow) == overlaps(narrow, wide) == bool(tight & broad)


@settings(max_examples=examples(200))
@given(text=filters, topic=st.sampled_from(TOPICS))
def test_a_filter_covers_the_topics_it_matches(text: str, topic: str) -> None:
    assert covers(text, topic) == (topic in matched(text))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("#", "a/+/b"), ("a/#", "a"), ("a/#", "a/+/#"), ("+/+", "a/+"), ("+/#", "#"), ("a/+", "a/b")],
)
def test_examples(wide: str, narrow: str) -> None:
    assert covers(wide, narrow)
    assert overlaps(wide, narrow)


@settings(max_examples=examples(300))
@given(st.sets(filters, max_size=12))
@example({"#", "+/#", "a"})
@example({"+/+/b", "+/a/+", "a/+/b", "+/+/+"})
def test_a_minimal_set_matches_what_the_whole_set_matches(texts: set[str]) -> None:
    least = minimal(texts)
    assert least <= texts
    assert set().union(*map(matched, least)) == set().union(*map(matched, texts))
    for text in least:
        assert not any(covers(other, text) for other in least - {text})


def test_examples_of_minimal_sets() -> None:
    assert minimal({"a/b", "a/+", "c"}) == {"a/+", "c"}
    assert minimal({"#", "+/#", "a", "$s/a", "$s/+"}) == {"#", "$s/+"}
    assert minimal([]) == set()


def test_many_levels_take_no_long_time() -> None:
    """A walk that took each ``+`` twice would take 2^60 steps."""
    deep = {"/".join(["+"] * levels) for levels in range(1, 60)}
    assert minimal(deep) == deep
