"""Numbers and times on the command line."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from ges.cli.durations import duration
from ges.cli.main import cli


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
    "text", ["", "5", "ms", "-5ms", "5 years", "nan", "inf", "1e3s", "9" * 400]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time: give a number and one of us, ms"):
        duration(text)


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
