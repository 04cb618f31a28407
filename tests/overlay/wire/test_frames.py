"""The layout of frames."""

from __future__ import annotations

import pytest

from overlay.wire.codec import FrameReader
from overlay.wire.frames import DELIVERY, EVENT, PROTOCOL_VERSION, frame, frame_start


@pytest.mark.parametrize("kind", [EVENT, DELIVERY])
@pytest.mark.parametrize("size", [0, 1, 300, 70_000])
def test_a_start_and_its_body_are_a_frame(kind: int, size: int) -> None:
    body = bytes(size)
    assert frame_start(kind, size) + body == frame(kind, body, PROTOCOL_VERSION)
    reader = FrameReader()
    reader.limit(size + 2)
    reader.feed(frame_start(kind, size) + body)
    assert reader.next_frame() == (kind, body)
