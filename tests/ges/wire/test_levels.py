"""Destinations above the cluster, behind an event."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.wire.event_flags import LEVELS_FLAG
from ges.wire.event_runs import EventRun
from ges.wire.events import Duty, pack_event, read_head, redirected
from ges.wire.groups import Serving
from ges.wire.levels import MAX_ADDRESS, UPPER_BYTES, pack_upper, read_upper
from overlay.errors import CodecError

MASKS = st.integers(0, 2**256 - 1)
EVENT = pack_event(False, b"p" * 16, 1, 1, 0, b"a/b", b"", b"payload")


def run(body: bytes = EVENT) -> EventRun:
    return EventRun.of(read_head(body), body)


@given(MASKS, MASKS, st.integers(0, MAX_ADDRESS), st.integers(0, 3))
def test_what_is_written_is_read(
    destinations: int, trace: int, address: int, entering: int
) -> None:
    duty = Duty(4, 0, destinations, trace, address, entering)
    body = redirected(EVENT, 0, 3, 5, 7, duty)
    head = read_head(body)
    assert head.duty == duty
    assert len(body) == len(EVENT) + UPPER_BYTES
    assert redirected(body, head.flags, 3, 5, 7, Duty(1, 0, 6, 1)) == redirected(
        EVENT, 0, 3, 5, 7, Duty(1, 0, 6, 1)
    ), "in its cluster an event has nothing of it"


def test_what_makes_no_sense_is_refused() -> None:
    short = bytearray(EVENT)
    short[0] |= LEVELS_FLAG >> 8
    with pytest.raises(CodecError):
        read_head(bytes(short))
    with pytest.raises(CodecError, match="units make no sense"):
        read_upper(pack_upper(0, 0, MAX_ADDRESS, 4), 0)
    with pytest.raises(CodecError, match="units make no sense"):
        read_upper(pack_upper(0, 0, MAX_ADDRESS + 1, 0), 0)


def test_a_run_is_levelled_and_flat_again_as_it_was() -> None:
    plain = run()
    levelled = plain.levelled()
    assert levelled.head.flags & LEVELS_FLAG
    assert levelled.levelled() is levelled
    assert plain.flat() is plain
    assert bytes(redirected(EVENT, 0, 0, 0, 0, Duty(1))) == next(levelled.flat().bodies())


def test_who_serves_groups_stands_before_it() -> None:
    serving = Serving({7: 3})
    levelled = run().grouped(serving).levelled()
    flags, body = levelled.head.flags, next(levelled.bodies())
    wanted = redirected(body, flags, 0, 0, 0, Duty(4, 0, 1 << 64))
    found = run(wanted)
    assert found.serving() == serving
    assert found.flat().ungrouped().largest_payload == len(b"payload")
