"""The trace that an event belongs to: its form, its place, and who is held to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.errors import TraceparentError
from ges.wire.attributes import pack_attributes
from ges.wire.delivered import read_events
from ges.wire.event_runs import EventRun, event_runs
from ges.wire.events import pack_event, pack_express
from ges.wire.trace_context import (
    TRACEPARENT,
    check_traceparent,
    traced,
    traceparent_in,
    traceparents,
)
from overlay.wire.frames import EVENT, frame

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-00"
WRONG = [
    "",
    "x",
    TRACE.upper(),
    TRACE + "\n",
    TRACE + "-00",
    TRACE[:-1],
    "01" + TRACE[2:],  # a version that nobody knows yet
    "ff" + TRACE[2:],
    f"00-{'0' * 32}-00f067aa0ba902b7-01",
    f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
]

digits = st.text("0123456789abcdef", min_size=32, max_size=32).filter(lambda t: t.strip("0"))
forms = st.builds(
    "00-{}-{}-{}".format,
    digits,
    digits.map(lambda t: t[:16]).filter(lambda t: t.strip("0")),
    st.sampled_from(["00", "01", "ff"]),
)


@given(forms)
def test_what_has_the_form_is_carried_as_it_is(text: str) -> None:
    attributes = traced({"unit": "C"}, text)
    assert attributes == {"unit": "C", TRACEPARENT: text}
    assert traceparent_in(attributes) == text


@pytest.mark.parametrize("text", WRONG)
def test_what_has_not_is_refused_and_where_it_has_come_it_is_none(text: str) -> None:
    with pytest.raises(TraceparentError, match="00-TRACE-SPAN-FLAGS") as refused:
        check_traceparent(text)
    assert refused.value.code == "traceparent"
    for attributes, given_too in ((None, text), ({TRACEPARENT: text}, None)):
        with pytest.raises(TraceparentError):
            traced(attributes, given_too)
    assert traceparent_in({TRACEPARENT: text}) == ""


def test_it_is_given_once_or_twice_the_same() -> None:
    assert traced({TRACEPARENT: TRACE}, TRACE) == {TRACEPARENT: TRACE}
    assert traced({TRACEPARENT: TRACE}, None) == {TRACEPARENT: TRACE}
    with pytest.raises(TraceparentError, match="give one"):
        traced({TRACEPARENT: TRACE}, OTHER)
    assert traced(None, None) is None


def event(sequence: int, attributes: dict[str, str] | None, *, express: bool = False) -> bytes:
    packed = pack_attributes(attributes)
    if express:
        return frame(EVENT, pack_express(b"p" * 16, 1, sequence, 9, b"a", packed, b"x", 100))
    return frame(EVENT, pack_event(False, b"p" * 16, 1, sequence, 9, b"a", packed, b"x"))


def runs(*frames: bytes) -> list[EventRun]:
    bounds = [0]
    for each in frames:
        bounds.append(bounds[-1] + len(each))
    return list(event_runs(b"".join(frames), bounds))


def test_each_event_of_a_run_has_its_own() -> None:
    [run] = runs(event(1, {TRACEPARENT: TRACE}), event(2, {TRACEPARENT: OTHER}))
    assert list(traceparents(run)) == [(1, TRACE), (2, OTHER)]
    delivered = read_events(run.data)
    assert [each.traceparent for each in delivered] == [TRACE, OTHER]


def test_an_express_event_has_one_too() -> None:
    [run] = runs(event(1, {TRACEPARENT: TRACE}, express=True))
    assert list(traceparents(run)) == [(1, TRACE)]
    assert read_events(run.data)[0].traceparent == TRACE


def test_events_without_one_are_as_they_were() -> None:
    [run] = runs(event(7, None))
    assert list(traceparents(run)) == []
    assert read_events(run.data)[0].traceparent == ""
    [other] = runs(event(8, {"note": "traceparent", "traceparents": TRACE}))
    assert list(traceparents(other)) == []
