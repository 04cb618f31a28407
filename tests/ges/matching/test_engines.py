"""All engines find what the rules say, and the rules are tried one filter after the other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ges.matching.engine import Engine
from ges.matching.exact_topics import ExactTopics
from ges.matching.filter_tree import FilterTree
from ges.matching.mask_index import MAX_MEMBERS, MaskIndex
from ges.matching.topic_filters import TopicFilters, is_wild
from ges.wire.topics import check_filter, check_topic
from tests.helpers.examples import examples
from tests.helpers.linear_filters import LinearFilters, does_match

LEVELS = ["a", "b", "", "$s"]
topics = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=5).map("/".join).filter(bool)
wild = st.builds(
    lambda names, last: "/".join([*names, last]),
    st.lists(st.sampled_from([*LEVELS, "+"]), max_size=4),
    st.sampled_from(["a", "", "+", "#"]),
).filter(bool)
filters = wild | topics
members = st.sampled_from([0, 1, 62, 63])
changes = st.tuples(filters, members, st.booleans())


def test_more_than_ten_thousand_pairs_of_filter_and_topic() -> None:
    tried = 0

    @settings(max_examples=150, database=None)
    @given(st.lists(filters, min_size=15, max_size=25), st.lists(topics, min_size=8, max_size=8))
    def compare(texts: list[str], asked: list[str]) -> None:
        nonlocal tried
        engines: list[Engine[str]] = [FilterTree(), TopicFilters(), LinearFilters()]
        exact: ExactTopics[str] = ExactTopics()
        for text in texts:
            for engine in engines:
                engine.add(check_filter(text), text)
            if not is_wild(text):
                exact.add(text, text)
        for topic in map(check_topic, asked):
            tried += len(texts)
            expected = {text for text in texts if does_match(text, topic)}
            for engine in engines:
                found = engine.matches(topic)
                assert set(found) == expected
                assert len(found) == len(expected), "each once"
            assert exact.matches(topic) == [topic] * (topic in texts)

    compare()
    assert tried > 10_000


@settings(max_examples=examples(200))
@given(st.lists(st.one_of(changes, topics), max_size=60))
def test_after_any_changes_all_engines_agree(steps: list[tuple[str, int, bool] | str]) -> None:
    """The masks among them, which remember what they have found."""
    linear: LinearFilters[int] = LinearFilters()
    tree: FilterTree[int] = FilterTree()
    both: TopicFilters[int] = TopicFilters()
    masks = MaskIndex()
    for step in steps:
        if isinstance(step, str):
            expected = sorted(linear.matches(step))
            assert sorted(tree.matches(step)) == sorted(both.matches(step)) == expected
            mask = masks.mask_of(step.encode())
            assert [slot for slot in range(MAX_MEMBERS) if mask >> slot & 1] == expected
            continue
        text, holder, is_new = step
        for engine in (linear, tree, both, masks):
            (engine.add if is_new else engine.remove)(text, holder)


def test_a_mask_has_a_bit_for_each_of_64_members_and_no_more() -> None:
    masks = MaskIndex()
    for slot in range(64):
        masks.add("a/+", slot)
    assert masks.mask_of(b"a/b") == 2**64 - 1
    masks.remove("a/+", 63)
    masks.add("a/b", 62)
    masks.remove("a/+", 62)
    assert masks.mask_of(b"a/b") == 2**63 - 1
    assert masks.mask_of(b"b\xff") == 0, "what is no text matches nothing"
    for slot in (-1, 64):
        with pytest.raises(ValueError, match=r"slots are from 0 to 63"):
            masks.add("a", slot)


def test_masks_that_are_dropped_are_found_again() -> None:
    masks = MaskIndex()
    masks.add("a/+", 3)
    assert masks.mask_of(b"a/b") == 8
    assert masks.cached_bytes > 0
    masks.drop_cache()
    assert masks.cached_bytes == 0
    assert masks.mask_of(b"a/b") == 8


def test_one_holder_of_an_exact_filter_and_one_with_wildcards_is_found_once() -> None:
    both: TopicFilters[str] = TopicFilters()
    for text in ("a/b", "a/+", "#"):
        both.add(text, "me")
    both.add("a/b", "you")
    assert both.matches("a/b") == ["me", "you"]
