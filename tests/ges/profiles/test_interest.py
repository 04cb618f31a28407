"""What equals what, and what covers what."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.errors import TopicError
from ges.profiles.covering import CoverTree
from ges.profiles.interest import (
    CLASS_BITS,
    Engine,
    canonical,
    covers,
    digest_of,
    everything,
    interest_in,
    mark_of,
    order,
    size_of,
)
from ges.wire.profile_messages import Interest
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from tests.ges.profiles.cluster import FILTERS, TOPICS
from tests.helpers.linear_filters import does_match

interests = st.builds(
    interest_in,
    st.sampled_from([*FILTERS, "$s", "$s/+", "b", "a/#", "+/+/#"]),
    st.sampled_from([None, *LinkClass]),
    st.sampled_from([None, None, "g", "h"]),
)


@pytest.mark.parametrize("text", [*FILTERS, "+/+/#", "a/+/#", "$s/+/#", "+/$s"])
def test_the_canonical_form_matches_the_same(text: str) -> None:
    for topic in TOPICS:
        assert does_match(text, topic) == does_match(canonical(text), topic)


def test_filters_of_one_meaning_are_one_interest() -> None:
    assert interest_in("+/#") == interest_in("#")
    assert interest_in("+/+/#") != interest_in("+/#"), "one asks for two levels"
    assert interest_in("a/#") != interest_in("a/+/#"), "one matches a"


def test_what_is_no_filter_is_no_interest() -> None:
    with pytest.raises(TopicError, match="write '#'"):
        interest_in("a/>")
    with pytest.raises(ConfigError, match="1 to 64 characters, not 65"):
        interest_in("a", group="g" * 65)
    with pytest.raises(ConfigError, match="chordals"):
        interest_in("a", LinkClass.SECURE, secure=False)


def test_over_a_plain_hop_no_secure_events_are_asked_for() -> None:
    """Else a broker that cannot get any would keep all others from publishing them."""
    assert not interest_in("a", secure=False).classes & CLASS_BITS[LinkClass.SECURE]
    assert covers(interest_in("a"), interest_in("a", secure=False))
    assert not covers(interest_in("a", secure=False), interest_in("a"))


@pytest.mark.parametrize(
    ("wide", "narrow", "is_covered"),
    [
        (interest_in("a/#"), interest_in("a"), True),
        (interest_in("a/+"), interest_in("a/#"), False),
        (interest_in("#"), interest_in("$s/a"), False),
        (everything(), interest_in("$s/a"), True),
        (everything(), interest_in("#"), True),
        (interest_in("#"), everything(), False),
        (interest_in("a"), interest_in("a", LinkClass.EXPRESS), True),
        (interest_in("a", LinkClass.EXPRESS), interest_in("a"), False),
        (everything(1), interest_in("a"), False),
        (interest_in("a/#", group="g"), interest_in("a/b", group="g"), False),
        (interest_in("a", group="g"), interest_in("a", LinkClass.NORMAL, group="g"), True),
        (interest_in("a/#", group="g"), interest_in("a/b", group="h"), False),
        (interest_in("a/#", group="g"), interest_in("a/b"), False),
        (interest_in("a/#"), interest_in("a/b", group="g"), False),
        (Interest(9, "x", 7), Interest(9, "x", 1), True),
        (Interest(9, "x", 7), Interest(9, "y", 7), False),
        (Interest(9, "a/#", 7), interest_in("a/b"), False),
    ],
)
def test_covering(wide: Interest, narrow: Interest, is_covered: bool) -> None:
    """A group hides no subscriber that has none, and none of another group: in doubt it stays."""
    assert covers(wide, narrow) is is_covered


@given(st.sets(interests | st.just(everything()) | st.just(everything(1)), max_size=20), interests)
def test_the_tree_finds_what_covers_and_what_is_covered(
    known: set[Interest], asked: Interest
) -> None:
    tree = CoverTree()
    for each in sorted(known, key=order):
        tree.add(each)
    for each in [*sorted(known, key=order), asked, everything(3)]:
        others = known - {each}
        assert set(tree.covering(each)) == {other for other in others if covers(other, each)}
        found = tree.covered(each)
        assert len(found) == len(set(found))
        assert set(found) == {other for other in others if covers(each, other)}
    for number, each in enumerate(sorted(known, key=order)):
        assert len(tree) == len(known) - number
        tree.remove(each)
    assert not tree._root.children


def test_marks_have_63_bits_and_tell_all_parts_apart() -> None:
    marks = {
        mark_of(interest_in("a")),
        mark_of(interest_in("b")),
        mark_of(interest_in("a", LinkClass.NORMAL)),
        mark_of(interest_in("a", group="g")),
        mark_of(everything()),
        mark_of(Interest(Engine.TOPICS, "", 7)),
    }
    assert len(marks) == 6
    assert all(0 <= mark < 2**63 for mark in marks)
    assert mark_of(interest_in("a")) == 6921440350252832235, "all brokers must reckon alike"


def test_a_digest_is_a_sum_whatever_the_order() -> None:
    some = [interest_in(str(number)) for number in range(50)]
    assert digest_of(some) == digest_of(reversed(some)) == sum(map(mark_of, some)) % 2**63


@given(interests)
def test_the_size_is_no_less_than_what_is_sent(interest: Interest) -> None:
    assert len(msgspec.msgpack.encode(interest)) <= size_of(interest)
