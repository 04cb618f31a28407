"""What equals what, and what covers what."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.errors import TopicError
from ges.matching.asks import (
    ask_for,
    canonical,
    covers,
    digest_of,
    everything,
    mark_of,
    order,
    served,
    size_of,
)
from ges.profiles.covering import CoverTree
from ges.wire.asked import Ask
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from tests.ges.profiles.cluster import FILTERS, TOPICS
from tests.helpers.linear_filters import does_match

asks = st.builds(
    ask_for,
    st.sampled_from([*FILTERS, "$s", "$s/+", "b", "a/#", "+/+/#"]),
    st.sampled_from([None, *LinkClass]),
    st.sampled_from([None, None, "g", "h"]),
)


@pytest.mark.parametrize("text", [*FILTERS, "+/+/#", "a/+/#", "$s/+/#", "+/$s"])
def test_the_canonical_form_matches_the_same(text: str) -> None:
    for topic in TOPICS:
        assert does_match(text, topic) == does_match(canonical(text), topic)


def test_filters_of_one_meaning_are_one_ask() -> None:
    assert ask_for("+/#") == ask_for("#")
    assert ask_for("+/+/#") != ask_for("+/#"), "one asks for two levels"
    assert ask_for("a/#") != ask_for("a/+/#"), "one matches a"
    assert served(Ask("+/#"), secure=True) == ask_for("#"), "however a client says it"


def test_what_is_no_filter_is_no_ask() -> None:
    with pytest.raises(TopicError, match="write '#'"):
        ask_for("a/>")
    with pytest.raises(ConfigError, match="1 to 64 characters, not 65"):
        ask_for("a", group="g" * 65)
    with pytest.raises(ConfigError, match="chordals"):
        served(ask_for("a", LinkClass.SECURE), secure=False)


def test_over_a_plain_hop_no_secure_events_are_asked_for() -> None:
    """Else a broker that cannot get any would keep all others from publishing them."""
    plain = served(ask_for("a"), secure=False)
    assert not plain.takes(LinkClass.SECURE)
    assert covers(ask_for("a"), plain)
    assert not covers(plain, ask_for("a"))


@pytest.mark.parametrize(
    ("wide", "narrow", "is_covered"),
    [
        (ask_for("a/#"), ask_for("a"), True),
        (ask_for("a/+"), ask_for("a/#"), False),
        (ask_for("#"), ask_for("$s/a"), False),
        (everything(), ask_for("$s/a"), True),
        (everything(), ask_for("#"), True),
        (ask_for("#"), everything(), False),
        (ask_for("a"), ask_for("a", LinkClass.EXPRESS), True),
        (ask_for("a", LinkClass.EXPRESS), ask_for("a"), False),
        (everything(1), ask_for("a"), False),
        (ask_for("a/#", group="g"), ask_for("a/b", group="g"), False),
        (ask_for("a", group="g"), ask_for("a", LinkClass.NORMAL, group="g"), True),
        (ask_for("a/#", group="g"), ask_for("a/b", group="h"), False),
        (ask_for("a/#", group="g"), ask_for("a/b"), False),
        (ask_for("a/#"), ask_for("a/b", group="g"), False),
    ],
)
def test_covering(wide: Ask, narrow: Ask, is_covered: bool) -> None:
    """A group hides no subscriber that has none, and none of another group: in doubt it stays."""
    assert covers(wide, narrow) is is_covered


@given(st.sets(asks | st.just(everything()) | st.just(everything(1)), max_size=20), asks)
def test_the_tree_finds_what_covers_and_what_is_covered(known: set[Ask], asked: Ask) -> None:
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
        mark_of(ask_for("a")),
        mark_of(ask_for("b")),
        mark_of(ask_for("a", LinkClass.NORMAL)),
        mark_of(ask_for("a", group="g")),
        mark_of(everything()),
    }
    assert len(marks) == 5
    assert all(0 <= mark < 2**63 for mark in marks)
    assert mark_of(ask_for("a")) == 7830079281711038068, "all brokers must reckon alike"


def test_a_digest_is_a_sum_whatever_the_order() -> None:
    some = [ask_for(str(number)) for number in range(50)]
    assert digest_of(some) == digest_of(reversed(some)) == sum(map(mark_of, some)) % 2**63


@given(asks)
def test_the_size_is_no_less_than_what_is_sent(ask: Ask) -> None:
    assert len(msgspec.msgpack.encode(ask)) <= size_of(ask)
