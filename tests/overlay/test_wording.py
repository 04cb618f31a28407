"""How many of what, in words; and what others say, made fit to be printed."""

from __future__ import annotations

import pytest

from overlay.wording import counted, lasting, printable


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 identities"), (1, "1 identity"), (2, "2 identities")]
)
def test_one_is_not_many(number: int, told: str) -> None:
    assert counted(number, "identity", "identities") == told
    assert counted(number, "link") == (f"{number} links" if number != 1 else "1 link")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("21.5 °C, 東京", "21.5 °C, 東京"),
        ("\x1b[2Ja", "\\x1b[2Ja"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("\u202eabc\u2028", "\\u202eabc\\u2028"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_does_not_show_is_written_as_an_escape(text: str, told: str) -> None:
    assert printable(text) == told


def test_line_feeds_may_be_kept() -> None:
    assert printable("a\n\x1bb", keep="\n") == "a\n\\x1bb"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 seconds"),
        (1.2, "1 second"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (5400, "90 minutes"),
        (7200, "2 hours"),
        (47.9 * 3600, "47 hours"),
        (29.5 * 86_400, "29 days"),
        (-7200, "-2 hours"),
    ],
)
def test_a_time_as_people_write_it(seconds: float, told: str) -> None:
    assert lasting(seconds) == told
