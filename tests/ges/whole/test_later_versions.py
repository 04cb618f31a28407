"""What later versions of the protocol may say of an event: a broker of this one carries it on."""

from __future__ import annotations

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from ges.client import connect
from ges.wire.event_flags import FLAGS, EventFlag
from ges.wire.events import HEADER
from overlay.wire.frames import EVENT, frame
from tests.ges.sessions.test_clients import DEADLINE_SECONDS, event, raw

LATER = [each for each in FLAGS if each.bit >> 17]
WORDS_AT = 83  #: in a header


def with_words(body: bytes, flag: EventFlag | None, words: int) -> bytes:
    """Return an event with the extension of a flag, and words that no version has yet."""
    flags = int.from_bytes(body[:4]) | (flag.bit if flag is not None else 0)
    head = bytearray(flags.to_bytes(4) + body[4 : HEADER.size])
    head[WORDS_AT] = words
    extension = bytes(range(flag.extension)) if flag is not None else b""
    return bytes(head) + extension + b"\xa5" * 8 * words + body[HEADER.size :]


@pytest.mark.parametrize(
    ("flag", "words"),
    [*((each, 0) for each in LATER), (None, 1), (None, 255), (LATER[0], 3)],
    ids=[*(f"bit {each.bit.bit_length() - 1}" for each in LATER), "word", "words", "both"],
)
async def test_a_broker_skips_what_it_does_not_know_and_carries_it_on(
    brokers: Brokers, flag: EventFlag | None, words: int
) -> None:
    here, there = await brokers.ring_of(2)
    async with connect(there.url) as client, client.subscribe("later") as events:
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()
            async with raw(here) as publisher:
                body = event(1, topic=b"later", payload=b"\0payload")
                await publisher.stream.send_all(frame(EVENT, with_words(body, flag, words)))
                found = await anext(events)
    assert (found.topic, found.payload, dict(found.attributes)) == ("later", b"\0payload", {})
