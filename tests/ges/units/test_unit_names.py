"""How names of units are written."""

from __future__ import annotations

import pytest

from ges.units.unit_names import at_level, listed, parse_unit, written
from overlay.errors import ConfigError


def test_a_name_reads_from_the_top() -> None:
    names = parse_unit("eu/fra/a")
    assert names == ("eu", "fra", "a")
    assert [at_level(names, level) for level in (3, 2, 1)] == ["eu", "fra", "a"]
    assert [at_level(parse_unit("eu"), level) for level in (3, 2, 1)] == ["eu", "", ""]
    assert parse_unit("") == ()


@pytest.mark.parametrize("text", ["eu", "eu/fra", "0/1/2", "x" * 32, "a.b-c_d/E"])
def test_what_is_written_is_read_again(text: str) -> None:
    assert written(parse_unit(text)) == text


@pytest.mark.parametrize(
    "text",
    [*("/", "eu/", "/eu", "eu//a", "a/b/c/d", "eu/fra a", "-eu", "x" * 33, "ü", "eu\n", "[red]")],
)
def test_what_is_no_name_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="such as eu/fra/a"):
        parse_unit(text)


def test_a_long_list_is_cut() -> None:
    names = [f"n{i:02}" for i in range(12)]
    assert listed(names[:10]).endswith("n08, n09")
    assert listed(names).endswith("n09 and 2 more")
