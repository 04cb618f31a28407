"""A status of any length comes over, in frames that are no longer than they may be."""

from __future__ import annotations

import msgspec
import pytest

from ges.wire.client_messages import CLIENT_CODEC
from ges.wire.status import LinkStatus, MoreStatus, Status
from ges.wire.status_pages import StatusPages, status_frames
from overlay.errors import ProtocolError
from overlay.ids import LinkClass, Peer
from overlay.wire.codec import FrameReader
from overlay.wire.frames import CONTROL, MAX_CONTROL_BYTES
from ring.wire.messages import Member

UID = "a" * 32
LONG_URL = "chordal://" + "h" * 280 + ":9470"
MEMBER = Member(Peer("b" * 32, 1, LONG_URL), 7)


def link(number: int, *roles: str) -> LinkStatus:
    return LinkStatus(f"{number:032x}", LONG_URL, number, LinkClass.NORMAL, roles, 0, 1.5, None)


def status(links: int) -> Status:
    return Status(
        uid=UID,
        incarnation=1,
        url=LONG_URL,
        overlay="chordal",
        version="1",
        secure=False,
        member=MEMBER,
        left=(MEMBER,),
        right=(MEMBER,),
        chords=(MEMBER,) * 20,
        suspects=("c" * 32,),
        links=tuple(link(n, *(["left"] if n == links - 1 else [])) for n in range(links)),
        clients=3,
        subscriptions=4,
        counters={"events_published": 5},
        uptime_s=6.5,
    )


def read(frames: list[bytes]) -> list[Status | MoreStatus]:
    """Return the messages in frames, as a client reads them, which refuses what is too long."""
    reader = FrameReader()
    reader.feed(b"".join(frames))
    found = []
    for kind, body in reader.frames():
        assert kind == CONTROL
        message = CLIENT_CODEC.decode(body)
        assert isinstance(message, Status | MoreStatus)
        found.append(message)
    return found


@pytest.mark.parametrize("links", [0, 100, 150, 200, 6 * 1024])
def test_a_status_comes_over_whole(links: int) -> None:
    told = status(links)
    frames = status_frames(told)
    assert max(map(len, frames)) <= MAX_CONTROL_BYTES
    assert (len(frames) > 1) == (links >= 150)
    pages = StatusPages()
    found = [pages.take(message) for message in read(frames)]
    assert found[:-1] == [None] * (len(frames) - 1)
    assert found[-1] == told


def test_the_first_page_is_a_status_with_what_the_ring_stands_on() -> None:
    """So much a client gets that knows no pages."""
    told = status(200)
    first = read(status_frames(told)[:1])[0]
    assert isinstance(first, Status)
    assert first.links[0].roles == ("left",)
    assert (first.chords, first.counters) == (told.chords, told.counters)


def test_pages_that_nobody_announced_are_refused() -> None:
    frames = read(status_frames(status(400)))
    assert len(frames) >= 3
    for wrong in ([frames[1]], [frames[0], frames[2]], [*frames, frames[-1]]):
        pages = StatusPages()
        for page in wrong[:-1]:
            pages.take(page)
        with pytest.raises(ProtocolError, match="none of those announced"):
            pages.take(wrong[-1])


def test_a_status_that_begins_anew_takes_the_place_of_one_that_never_ended() -> None:
    pages = StatusPages()
    assert pages.take(read(status_frames(status(400)))[0]) is None
    short = status(1)
    assert pages.take(short) == short
    assert msgspec.structs.replace(short, more=1) != short
