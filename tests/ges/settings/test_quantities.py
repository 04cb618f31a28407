"""Times and sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.settings.quantities import bytes_of, bytes_text, seconds_of, time_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0"),
        (0.005, "5ms"),
        (0.00025, "250us"),
        (1.5, "1.5s"),
        (2, "2s"),
        (90, "90s"),
        (120, "2m"),
        (3600, "1h"),
        (0.0123456, "12.3456ms"),
    ],
)
def test_a_time_is_written_as_people_do(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@given(st.integers(0, 10**11))
def test_a_time_that_is_written_is_read_again(microseconds: int) -> None:
    seconds = microseconds / 1e6
    assert seconds_of(time_text(seconds)) == pytest.approx(seconds, rel=1e-11)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0"), (1000, "1000"), (4096, "4KiB"), (2**20, "1MiB"), (3 * 2**29, "1536MiB")],
)
def test_a_size_is_written_likewise(size: int, text: str) -> None:
    assert bytes_text(size) == text


@given(st.integers(0, 2**60))
def test_a_size_that_is_written_is_read_again(size: int) -> None:
    assert bytes_of(bytes_text(size)) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5", "64MB", "1e3", "MiB", "nan", "1 PiB"])
def test_what_is_no_size_says_nothing(text: str) -> None:
    assert bytes_of(text) is None
