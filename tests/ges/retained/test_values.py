"""The last value of each topic: which counts, what is forgotten, what brokers compare."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.matching.asks import ask_for, served
from ges.retained.topic_tree import TopicTree
from ges.retained.values import (
    AHEAD_NS,
    CLEARED_MS,
    NANOS_PER_MILLI,
    SPARE,
    VALUE_BYTES,
    RetainedValues,
)
from ges.wire.asked import Ask
from ges.wire.event_runs import EventRun
from ges.wire.events import pack_event, read_head
from overlay.ids import LinkClass
from overlay.shares import Source
from tests.helpers.linear_filters import does_match

NOW = 1_800_000_000 * 10**9
SECOND = 10**9

levels = st.sampled_from(["a", "b", "", "$SYS", "cc"])
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
filters = st.builds(
    lambda found, rest: "/".join([*found, *rest]),
    st.lists(st.one_of(levels, st.just("+")), min_size=1, max_size=4),
    st.sampled_from([[], ["#"]]),
).filter(bool)


def event(
    topic: bytes = b"t",
    payload: bytes = b"x",
    *,
    sequence: int = 1,
    publisher: bytes = b"p" * 16,
    at: int = NOW,
    ends_ms: int = 0,
    secure: bool = False,
    again: bool = False,
) -> EventRun:
    """Return an event as a broker has stamped it; ``again``: as its client sends it once more."""
    who = secure, publisher, 1, sequence, NOW
    body = pack_event(*who, topic, b"", payload, retain=True, ttl_ms=1 if ends_ms else 0)
    if again:
        body = body[:3] + bytes([body[3] | 64]) + body[4:]
    return EventRun.of(read_head(body), body).timed(at, ends_ms)


def payloads(values: RetainedValues, text: str = "#", *, secure: bool = True) -> list[bytes]:
    return [value.frame[-1:] for value in values.matching(served(Ask(text), secure=secure))]


@given(st.sets(topics), filters)
def test_a_filter_finds_the_topics_that_it_matches(known: set[str], text: str) -> None:
    tree = TopicTree()
    for topic in known:
        tree.add(topic)
    found = list(tree.matching(text))
    assert sorted(found) == sorted(topic for topic in known if does_match(text, topic))
    for topic in list(known)[::2]:
        tree.remove(topic)
        known.discard(topic)
    assert set(tree.matching("#")) == {t for t in known if not t.startswith("$")}


@given(st.permutations(range(12)), st.permutations(range(12)))
def test_all_brokers_agree_in_whatever_order_events_come(one: list[int], two: list[int]) -> None:
    runs = [
        event(
            b"t%d" % (number % 3),
            b"" if number % 4 == 3 else b"%d" % number,
            sequence=number + 1,
            publisher=bytes([number % 2]) * 16,
            at=NOW + number // 2,  # some have the same
        )
        for number in range(12)
    ]
    a, b = RetainedValues(), RetainedValues()
    for number in one:
        a.take(runs[number], NOW)
    for number in two:
        b.take(runs[number], NOW)
    assert payloads(a) == payloads(b)
    assert a.digest(secure=False) == b.digest(secure=False)
    assert a.bytes == b.bytes
    assert list(a.differing(b.marks(secure=False), secure=False)) == []


def test_whoever_has_seen_a_value_replaces_it_though_clocks_differ_by_minutes() -> None:
    values = RetainedValues()
    values.take(event(at=NOW + 299 * SECOND), NOW)
    late = event(payload=b"y", publisher=b"q" * 16)
    stamp = values.stamp_for(late.head, NOW)
    assert stamp == NOW + 299 * SECOND + 1
    assert values.take(late.timed(stamp, 0), NOW) is not None
    assert payloads(values) == [b"y"]


def test_an_event_that_is_sent_again_does_not_replace_what_came_since() -> None:
    values = RetainedValues()
    values.take(event(payload=b"1", at=NOW + 1), NOW)
    values.take(event(payload=b"2", publisher=b"q" * 16, at=NOW + 2), NOW)
    again = event(payload=b"1", again=True)
    assert values.take(again.timed(values.stamp_for(again.head, NOW + 9 * SECOND), 0), NOW) is None
    assert payloads(values) == [b"2"]
    newer = event(payload=b"3", publisher=b"q" * 16, sequence=2, again=True)
    assert values.take(newer.timed(values.stamp_for(newer.head, NOW), 0), NOW) is not None


def test_an_empty_payload_clears_and_older_values_do_not_come_back() -> None:
    values = RetainedValues()
    values.take(event(at=NOW), NOW)
    values.take(event(payload=b"", sequence=2, at=NOW + 1), NOW)
    assert payloads(values) == []
    assert len(values) == 1
    assert values.take(event(at=NOW), NOW) is None
    values.forget(NOW + (CLEARED_MS + 1) * NANOS_PER_MILLI)
    assert len(values) == 0
    assert (values.bytes, values.digest(secure=False)) == (0, 0)


def test_a_value_goes_when_it_ends() -> None:
    values = RetainedValues()
    ends_ms = NOW // NANOS_PER_MILLI + 50
    value = values.take(event(ends_ms=ends_ms), NOW)
    assert value is not None
    assert values.get(value.key, NOW) is value
    over = ends_ms * NANOS_PER_MILLI
    assert values.get(value.key, over) is None, "it is not given to anybody, if nobody looked yet"
    values.forget(over)
    assert len(values) == 0
    assert values.take(event(ends_ms=ends_ms), over) is None


def test_secure_values_stand_beside_normal_ones_and_are_for_secure_hops() -> None:
    values = RetainedValues()
    values.take(event(payload=b"n"), NOW)
    values.take(event(payload=b"s", secure=True, at=NOW + 1), NOW)
    assert payloads(values) == [b"n", b"s"]
    assert payloads(values, secure=False) == [b"n"]
    assert [v.key[0] for v in values.matching(ask_for("t", LinkClass.SECURE))] == [True]
    assert values.matching(ask_for("t", LinkClass.EXPRESS)) == []
    assert values.digest(secure=False) != values.digest(secure=True)


def test_what_is_too_much_is_refused_where_it_is_published_and_drives_out_the_oldest() -> None:
    values = RetainedValues()
    values.bound(3 * (VALUE_BYTES + 300))
    runs = [event(b"t%d" % number, at=NOW + number) for number in range(8)]
    random.Random(1).shuffle(runs)
    assert values.why_not(runs[0]) is None
    for run in runs:
        values.take(run, NOW)
    kept = [value.key[1] for value in values.matching(served(Ask("#"), secure=False))]
    assert kept == [b"t%d" % number for number in range(8 - len(kept), 8)]
    assert 3 <= len(kept) < 8
    assert values.bytes <= 3 * (VALUE_BYTES + 300)
    problem = values.why_not(event(b"new", b"x" * 300))
    assert problem is not None
    assert "bytes of retained values are taken; clear some" in problem
    assert values.why_not(event(kept[0])) is None, "it replaces one"
    assert values.why_not(event(kept[0]), most=0) is None
    assert values.why_not(event(b"new"), most=len(kept)) is not None


def test_only_values_of_topics_that_differ_are_told() -> None:
    a, b = RetainedValues(), RetainedValues()
    for number in range(2000):
        run = event(b"topic/%d" % number, at=NOW + number)
        a.take(run, NOW)
        if number != 77:
            b.take(run, NOW)
    told = list(a.differing(b.marks(secure=False), secure=False))
    assert b"topic/77" in {value.key[1] for value in told}
    assert len(told) < 30


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", ""]), st.integers(0, 40)),
        max_size=40,
    )
)
def test_the_books_of_sources_are_right(steps: list[tuple[int, str, int]]) -> None:
    """Whatever is published here or elsewhere, cleared, replaced or driven out."""
    values = RetainedValues()
    values.bound(4 * (VALUE_BYTES + 300))
    for number, (topic, who, size) in enumerate(steps, 1):
        run = event(b"t%d" % topic, bytes(size), sequence=number, at=NOW + number)
        if not who:  # from another broker
            values.take(run, NOW)
            continue
        source = Source(who, is_proven=who == "b")
        if values.why_not(run, source) is None:
            values.take(run, NOW)
            values.charge(run.head, source)
    values.forget(NOW + (CLEARED_MS + 1) * NANOS_PER_MILLI)
    owned = [values._values[key] for key in values._sources]
    assert len(values._numbers) == len(owned)
    assert len(values._sizes) == sum(value.size for value in owned)
    for name in ("a", "b"):
        source = Source(name, is_proven=name == "b")
        assert values._numbers.of(source) == list(values._sources.values()).count(source)


@pytest.mark.parametrize("shape", ["deep", "pairs", "flat", "set again"])
def test_values_are_charged_with_what_they_take(shape: str) -> None:
    """A topic of 64 levels took twelve times what it was charged with."""
    topics = {
        "deep": ["/".join(f"{n}.{level}" for level in range(64)) for n in range(300)],
        "pairs": [f"{'/'.join(f'{n // 2}.{at}' for at in range(63))}/{n}" for n in range(300)],
        "flat": [f"sensor/{n}" for n in range(600)],
        "set again": [f"sensor/{n % 200}" for n in range(3000)],
    }[shape]
    values = RetainedValues()
    runs = [
        event(topic.encode(), at=NOW + n, publisher=n.to_bytes(16, "big"), ends_ms=NOW // 10**5)
        for n, topic in enumerate(topics)
    ]
    tracemalloc.start()
    try:
        for run in runs:
            values.take(run, NOW)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # The heaps may have some entries that are out of date, however few values there are.
    assert taken < 1.25 * values.bytes + 400 * SPARE


def test_a_stamp_far_ahead_is_refused_and_one_a_little_ahead_is_replaced() -> None:
    values = RetainedValues()
    assert values.take(event(at=2**64 - 1), NOW) is None
    assert values.take(event(at=NOW + AHEAD_NS + 1), NOW) is None
    assert values.counters["retained_ahead"] == 2
    assert values.take(event(at=NOW + AHEAD_NS), NOW) is not None
    later = event(payload=b"y", publisher=b"a" * 16)
    stamp = values.stamp_for(later.head, NOW + 1)
    assert stamp <= NOW + 1 + AHEAD_NS
    assert values.take(later.timed(stamp, 0), NOW + 1) is not None
    assert payloads(values) == [b"y"]


def test_a_value_from_when_the_clock_here_was_ahead_counts_no_more() -> None:
    values, hour = RetainedValues(), 3600 * SECOND
    assert values.take(event(at=NOW + hour), NOW + hour) is not None
    new = event(payload=b"y", sequence=2)
    assert values.stamp_for(new.head, NOW) == NOW
    assert values.take(new, NOW) is not None
    assert payloads(values) == [b"y"]
