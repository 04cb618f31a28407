"""Nothing that a broker sends is unreadable to another, with the largest that it has let in."""

from __future__ import annotations

from typing import get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from msgspec import inspect

from ges.order.flow_order import FlowOrdering
from ges.order.recall import RecallLog
from ges.wire.event_runs import EventRun
from ges.wire.events import pack_event, read_head
from ges.wire.link_codec import LINK_CODEC, LINK_MESSAGES
from ges.wire.recall_messages import (
    MAX_LISTED,
    MAX_RANGES,
    FlowTail,
    ListedEvent,
    RangeDone,
    RangeQuery,
    Tails,
    WantedRange,
)
from overlay.errors import CodecError
from overlay.ids import MAX_COUNT, MAX_SEQUENCE, LinkClass, Nanos
from overlay.machine import Message
from overlay.wire.codec import FrameReader
from tests.helpers.strategies import structs

FLOW = b"p" * 16, MAX_COUNT, LinkClass.NORMAL
LONG = b"t" * 1024


def read(message: Message) -> Message:
    """Return what another broker reads of a message."""
    reader = FrameReader()
    reader.feed(LINK_CODEC.encode(message))
    ((_, body),) = reader.frames()
    return LINK_CODEC.decode(body)


@pytest.mark.parametrize("kind", LINK_MESSAGES, ids=lambda kind: kind.__name__)
def test_what_the_types_of_a_message_allow_is_read(kind: type[Message]) -> None:
    @settings(max_examples=5)
    @given(structs(kind))
    def is_read(message: Message) -> None:
        assert read(message) == message

    is_read()


def numbers_of(held: inspect.Type, name: str, found: dict[str, int]) -> None:
    match held:
        case inspect.StructType(fields=fields):
            for field in fields:
                numbers_of(field.type, field.name, found)
        case inspect.VarTupleType(item_type=item):
            numbers_of(item, name, found)
        case inspect.UnionType(types=options):
            for option in options:
                numbers_of(option, name, found)
        case inspect.IntType(ge=int(low), le=int(high)):
            found[f"{name} from {low}"] = high


@pytest.mark.parametrize("kind", LINK_MESSAGES, ids=lambda kind: kind.__name__)
def test_a_number_or_life_of_an_event_fits_into_every_message(kind: type[Message]) -> None:
    found: dict[str, int] = {}
    numbers_of(inspect.type_info(kind), kind.__name__, found)
    names = ("sequence", "first", "last", "floor", "chosen", "sent", "incarnation")
    for field, high in found.items():
        if field.split()[0] in names:
            assert high >= (MAX_COUNT if field.startswith(("floor", "inc")) else MAX_SEQUENCE)


def one(sequence: int, topic: bytes = b"t", size: int = 1) -> EventRun:
    body = pack_event(False, FLOW[0], FLOW[1], sequence, 0, topic, b"", bytes(size))
    return EventRun.of(read_head(body), body)


def test_the_last_number_is_asked_for_and_answered() -> None:
    ordering, log = FlowOrdering(), RecallLog()
    ordering.learn(FlowTail(*FLOW, 1, MAX_SEQUENCE), 9, Nanos(0))
    ((_, ranges),) = ordering.take_questions(Nanos(0))
    query = read(RangeQuery(3, ranges))
    assert isinstance(query, RangeQuery)
    _, (done,) = log.answer(query, Nanos(0))
    assert read(done) == done
    assert done.floor == MAX_SEQUENCE + 1, "nothing is known here"
    log.keep(one(MAX_SEQUENCE), 1 << 3, Nanos(0))
    tails = Tails(9, tuple(log.tails(Nanos(0))[3]))
    assert read(tails) == tails


def test_an_event_of_which_no_message_can_tell_is_not_let_in() -> None:
    for fields in ((MAX_COUNT, MAX_SEQUENCE + 1), (MAX_COUNT + 1, 1)):
        with pytest.raises(CodecError):
            read_head(pack_event(False, FLOW[0], *fields, 0, b"t", b"", b""))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(MAX_SEQUENCE + 1, get_type_hints(FlowTail, include_extras=True)["last"])


def test_an_answer_that_lists_long_topics_fits_into_a_frame() -> None:
    log = RecallLog()
    for sequence in range(1, 200):
        log.keep(one(sequence, LONG, size=40_000), 1, Nanos(0))
    _, (done,) = log.answer(RangeQuery(0, (WantedRange(1, *FLOW, 1, 199),)), Nanos(0))
    assert read(done) == done
    assert done.last < 199, "the rest is asked for again"


def test_questions_that_name_many_numbers_fit_into_a_frame() -> None:
    ordering = FlowOrdering()
    high = MAX_SEQUENCE - 2 * MAX_LISTED
    for number in range(1, 40):
        flow = (number.to_bytes(16), MAX_COUNT, LinkClass.NORMAL)
        ordering.learn(FlowTail(*flow, high, MAX_SEQUENCE), 9, Nanos(0))
    ((_, ranges),) = ordering.take_questions(Nanos(0))
    for each in ranges:
        listed = tuple(ListedEvent(high + at, b"t") for at in range(MAX_LISTED))
        ordering.settle(RangeDone(each.number, high, MAX_SEQUENCE, None, (), listed), Nanos(0))
    asked = 0
    for second in range(1, 20):
        for _, again in ordering.take_questions(Nanos(second * 10**9)):
            query = RangeQuery(3, again)
            assert read(query) == query
            asked += len(again)
            assert len(again) < MAX_RANGES
    assert asked >= len(ranges)
