"""What was found for topics: kept until a change concerns it, and within bounds."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ges.matching import changes as module
from ges.matching.changes import Changes
from ges.matching.filter_tree import filter_cost
from ges.matching.topic_cache import TopicCache
from tests.helpers.examples import examples
from tests.helpers.linear_filters import does_match

LIMIT = 10_000


class Finder:
    """Finds for a topic the names given so far for filters that match it, and counts its work."""

    def __init__(self, limit_bytes: int = LIMIT) -> None:
        self.changes: Changes[str] = Changes()
        self.cache: TopicCache[tuple[str, ...], str] = TopicCache(
            self.changes,
            self.match,
            self.mend,
            lambda value: 8 * len(value),
            nothing=("nothing",),
            limit_bytes=limit_bytes,
        )
        self.held: list[tuple[str, str]] = []
        self.matched: list[str] = []
        self.mended: list[str] = []

    def add(self, text: str, name: str) -> None:
        self.held.append((text, name))
        self.changes.note(text, name)

    def expected(self, topic: str) -> tuple[str, ...]:
        return tuple(name for text, name in self.held if does_match(text, topic))

    def match(self, topic: str) -> tuple[str, ...]:
        self.matched.append(topic)
        return self.expected(topic)

    def mend(self, topic: str, value: tuple[str, ...], found: list[str]) -> tuple[str, ...]:
        self.mended.append(topic)
        return (*value, *found)


def test_a_change_concerns_only_the_topics_that_the_filter_matches() -> None:
    finder = Finder()
    for topic in (b"a/b", b"a/c", b"x"):
        assert finder.cache.value(topic) == ()
    finder.add("a/b", "one")
    finder.add("a/+", "two")
    finder.add("+/c", "three")
    for _ in range(2):
        assert finder.cache.value(b"a/b") == ("one", "two")
        assert finder.cache.value(b"a/c") == ("two", "three")
        assert finder.cache.value(b"x") == ()
    assert finder.matched == ["a/b", "a/c", "x"]
    assert finder.mended == ["a/b", "a/c"]


levels = st.lists(st.sampled_from(["a", "b", "+"]), min_size=1, max_size=3).map("/".join)
steps = st.tuples(st.booleans(), levels, st.sampled_from(["", "/#"]))


@pytest.mark.parametrize("most", [3, 1024])
@settings(max_examples=examples(100))
@given(st.lists(steps, max_size=60))
def test_values_are_right_however_much_changes(
    most: int, plan: list[tuple[bool, str, str]]
) -> None:
    """With changes that are forgotten soon, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_CHANGES", most)
        finder = Finder()
        for number, (is_change, text, rest) in enumerate(plan):
            if is_change:
                finder.add(text + rest, str(number))
            else:
                topic = text.replace("+", "c")
                assert finder.cache.value(topic.encode()) == finder.expected(topic)


def test_changes_are_bounded_in_number_and_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    changes: Changes[int] = Changes()
    for number in range(5000):
        changes.note("a", number)
    assert changes.since(5000 - module.MAX_CHANGES, "a") == list(range(4488, 5000))
    assert changes.since(5000 - module.MAX_CHANGES - 1, "a") is None
    monkeypatch.setattr(module, "MAX_BYTES", 10 * filter_cost("long/0000"))
    for number in range(500):
        changes.note(f"long/{number:04}", number)
    assert changes.since(5489, "a") is None
    assert changes.since(5490, "long/0495") == [495]


def test_the_topic_used_longest_ago_goes_first() -> None:
    finder = Finder()
    for number in range(10):
        finder.cache.value(b"%d" % number)
    at_ten = finder.cache.cached_bytes
    number = 10
    while len(finder.cache) == number:
        finder.cache.value(b"0")  # stays, as it is used
        finder.cache.value(b"%d" % number)
        number += 1
    assert at_ten < finder.cache.cached_bytes <= LIMIT
    finder.matched.clear()
    finder.cache.value(b"0")
    finder.cache.value(b"2")
    assert finder.matched == []
    finder.cache.value(b"1")
    assert finder.matched == ["1"]


def test_a_value_that_is_too_large_is_found_and_not_kept() -> None:
    finder = Finder(limit_bytes=600)
    finder.held += [("a", str(number)) for number in range(100)]
    assert len(finder.cache.value(b"a")) == 100
    assert (len(finder.cache), finder.cache.cached_bytes) == (0, 0)
    finder.cache.value(b"b")
    finder.held.clear()
    for number in range(100):  # it becomes too large as it is mended
        finder.add("b", str(number))
    assert len(finder.cache.value(b"b")) == 100
    assert (len(finder.cache), finder.cache.cached_bytes) == (0, 0)


def test_equal_values_are_one_and_counted_once() -> None:
    finder = Finder(limit_bytes=10**9)
    finder.held += [("+", str(number)) for number in range(1000)]
    values = [finder.cache.value(b"%d" % number) for number in range(100)]
    assert all(
        value is values[0] for value in map(finder.cache.value, map(b"%d".__mod__, range(100)))
    )
    assert 8 * 1000 <= finder.cache.cached_bytes < 100 * 8 * 1000 / 10


def test_the_estimate_is_no_less_than_what_it_takes() -> None:
    finder = Finder(limit_bytes=10**9)
    finder.held += [("+", str(number)) for number in range(50)]
    finder.match = finder.expected  # type: ignore[method-assign]
    topics = [b"%08d" % number for number in range(5000)]
    tracemalloc.start()
    for topic in topics:
        finder.cache.value(topic)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used <= finder.cache.cached_bytes <= 4 * used


def test_what_is_no_text_is_not_kept() -> None:
    finder = Finder()
    assert finder.cache.value(b"\xff") == ("nothing",)
    assert len(finder.cache) == 0
