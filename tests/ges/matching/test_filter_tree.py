"""Filters: what matches what, and a tree that forgets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.matching.filter_tree import FilterTree
from ges.wire.topics import check_filter, check_topic
from tests.helpers.linear_filters import does_match

LEVELS = ["a", "b", "", "$s"]
topics = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=5).map("/".join).filter(bool)
filters = (
    st.tuples(
        st.lists(st.sampled_from([*LEVELS, "+"]), max_size=4), st.sampled_from(["a", "", "+", "#"])
    )
    .map(lambda parts: "/".join([*parts[0], parts[1]]))
    .filter(bool)
)


def found(topic: str, *texts: str) -> list[str]:
    tree: FilterTree[str] = FilterTree()
    for text in texts:
        tree.add(check_filter(text), text)
    return tree.matches(check_topic(topic))


@pytest.mark.parametrize(
    ("text", "topic", "expected"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/B", False),
        ("a/b", "a", False),
        ("a/b", "a/b/c", False),
        ("#", "a/b/c", True),
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("a/#", "ab", False),
        ("a/+", "a", False),
        ("a/+", "a/", True),
        ("a/+/#", "a", False),
        ("a/+/#", "a/b", True),
        ("+", "a", True),
        ("+", "a/b", False),
        ("+/+", "/a", True),
        ("/+", "/a", True),
        ("+", "/a", False),
        ("+/b/#", "a/b", True),
        ("a/+/c", "a/b/c", True),
        ("#", "$sys/load", False),
        ("+/load", "$sys/load", False),
        ("$sys/#", "$sys/load", True),
        ("$sys/+", "$sys/load", True),
        ("a/+", "a/$b", True),
    ],
)
def test_what_a_filter_matches(text: str, topic: str, expected: bool) -> None:
    assert found(topic, text) == [text] * expected
    assert does_match(text, topic) == expected


@given(st.lists(filters, max_size=12), topics)
def test_the_tree_finds_what_the_rules_say(texts: list[str], topic: str) -> None:
    assert sorted(found(topic, *texts)) == sorted({t for t in texts if does_match(t, topic)})


@given(st.lists(st.tuples(filters, st.integers(0, 3), st.booleans()), max_size=30), topics)
def test_after_any_changes_the_tree_holds_what_was_not_removed(
    changes: list[tuple[str, int, bool]], topic: str
) -> None:
    tree: FilterTree[int] = FilterTree()
    held: set[tuple[str, int]] = set()
    for text, holder, add in changes:
        if add:
            tree.add(text, holder)
            held.add((text, holder))
        else:
            tree.remove(text, holder)
            held.discard((text, holder))
    assert tree.size == len(held)
    expected = {holder for text, holder in held if does_match(text, topic)}
    assert sorted(tree.matches(topic)) == sorted(expected)


@given(st.lists(filters, unique=True, max_size=12))
def test_removing_all_leaves_nothing(texts: list[str]) -> None:
    tree: FilterTree[int] = FilterTree()
    for text in texts:
        tree.add(text, 1)
    for text in sorted(texts):
        tree.remove(text, 1)
    assert tree.size == 0
    assert tree._root.children == {}


def test_one_holder_of_several_matching_filters_is_found_once() -> None:
    tree: FilterTree[str] = FilterTree()
    for text in ("a/#", "a/+", "#", "a/b"):
        tree.add(text, "me")
    tree.add("a/b", "you")
    assert sorted(tree.matches("a/b")) == ["me", "you"]


def test_removing_what_is_not_there_changes_nothing() -> None:
    tree: FilterTree[str] = FilterTree()
    tree.add("a/b", "me")
    for text, holder in (("a/b", "you"), ("a", "me"), ("a/b/c", "me"), ("x", "me")):
        tree.remove(text, holder)
    assert (tree.size, tree.matches("a/b")) == (1, ["me"])
