"""Numbers and times on the command line."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from ges.cli.durations import MAX_DAYS, duration, lifetime, long_duration
from ges.cli.main import cli

DAY_SECONDS = 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5ms", 0.005),
        ("0", 0.0),
        ("0ms", 0.0),
        ("1.5s", 1.5),
        ("250us", 0.00025),
        ("2 m", 120),
        ("1H", 3600),
    ],
)
def test_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "5", "ms", "-5ms", "5 years", "nan", "inf", "1e3s", "3d", "9" * 400, "9" * 308 + "h"],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time: give a number and one of us, ms"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("29 days", 29 * DAY_SECONDS),
        ("1 day", DAY_SECONDS),
        ("12 hours", 43_200),
        ("15 min", 900),
        ("1.5 minutes", 90),
        ("1 second", 1),
        ("90 Seconds", 90),
    ],
)
def test_a_time_as_people_write_it(text: str, seconds: float) -> None:
    assert long_duration(text) == pytest.approx(seconds)
    assert lifetime(text) == pytest.approx(seconds)
    if "day" not in text:
        assert duration(text) == pytest.approx(seconds)


def test_milliseconds_in_words() -> None:
    assert duration("5 milliseconds") == pytest.approx(0.005)
    assert duration("250 microseconds") == pytest.approx(0.00025)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1.5s", 1.5),
        ("15m", 900),
        ("12h", 43_200),
        ("30d", 30 * DAY_SECONDS),
        (f"{MAX_DAYS}d", MAX_DAYS * DAY_SECONDS),
    ],
)
def test_a_time_in_days_or_less(text: str, seconds: float) -> None:
    assert long_duration(text) == pytest.approx(seconds)
    assert lifetime(text) == pytest.approx(seconds)


NO_LONG_TIMES = [
    "",
    "5",
    "d",
    "-5d",
    "5ms",
    "30D",
    "6M",
    "5 years",
    "nan",
    "1e3s",
    "never ",
    "soon",
]


@pytest.mark.parametrize("text", [*NO_LONG_TIMES, "never"])
def test_what_is_no_time_for_a_certificate(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no duration; write 90s, 15m, 12h or 30d"):
        long_duration(text)


@pytest.mark.parametrize("text", ["0", "0s", f"{MAX_DAYS + 1}d", "9" * 300 + "d"])
def test_the_bounds_of_a_time_for_a_certificate(text: str) -> None:
    with pytest.raises(click.BadParameter, match=f"is not between 0 and {MAX_DAYS}d"):
        long_duration(text)
    assert long_duration("0.1s") == pytest.approx(0.1)


def test_a_token_may_be_good_for_ever() -> None:
    assert lifetime("never") is None


@pytest.mark.parametrize("text", [*NO_LONG_TIMES, "0", "0s", "0.9s", f"{MAX_DAYS + 1}d"])
def test_what_is_no_lifetime_of_a_token(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"write one such as 90s, .* never"):
        lifetime(text)


@pytest.mark.parametrize(
    ("words", "option", "said"),
    [
        ("pub a x --class secure --park 3d", "--park", "is no time: give a number and one of us"),
        ("pub a x --class express --budget 5", "--budget", "is no time: give a number"),
        ("serve --express-range 5", "--express-range", "'5' is not a time such as 5ms"),
        ("serve --express-range 1", "--express-range", "'1' is not a time such as 5ms"),
        ("serve --express-budget soon", "--express-budget", "'soon' is not a time such as 5ms"),
        ("identity issue ca b --broker --for 5ms", "--for", "is no duration; write 90s"),
        ("identity renew ca b --for 0s", "--for", "is not between 0 and 36500d"),
        ("identity revoke ca b --timeout 5", "--timeout", "is no duration; write 90s"),
        ("token issue book me --lifetime 0.5s", "--lifetime", "is no lifetime; write one such"),
    ],
)
def test_an_option_says_what_it_takes(words: str, option: str, said: str) -> None:
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "status --timeout nan",
        "ring --check --wait nan",
        "sub # --wait nan",
        "ring --timeout -nan",
        "ring --check --wait soon",
    ],
)
def test_what_is_not_a_number_is_refused(words: str) -> None:
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == 2
    assert "is not a number." in done.stderr
