"""Each error has a code, and a line in docs/errors.md that says what to do; none is there twice."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ges.cli.main import INTERNAL, NO_MEMORY, SYSTEM, USAGE
from overlay.errors import ChordalError, ConfigError
from overlay.machine import Refused
from ring.errors import InvariantBroken

PAGE = Path(__file__).parents[3] / "docs" / "errors.md"
ROW = re.compile(r"^\| `([a-z-]+)` \| (\d+) \| [^|]+ \| [^|]+ \|$", re.MULTILINE)
REASON = re.compile(r"^\| `([a-z_]+)` \| [^|]+ \|$", re.MULTILINE)
PACKAGES = ("overlay", "ring", "ges", "sims", "spark")


def subclasses(root: type[ChordalError]) -> Iterator[type[ChordalError]]:
    yield root
    for each in root.__subclasses__():
        yield from subclasses(each)


@pytest.fixture(scope="module")
def errors() -> set[type[ChordalError]]:
    """All that the packages define."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if "error" in found.name:
                importlib.import_module(found.name)
    return {each for each in subclasses(ChordalError) if each.__module__.split(".")[0] in PACKAGES}


def defined() -> set[str]:
    """Names of the error classes in the source, whichever module they are in."""
    root = PAGE.parents[1]
    text = "".join(p.read_text() for name in PACKAGES for p in (root / name).rglob("*.py"))
    bases = {"ChordalError"}
    while True:
        more = {
            name
            for name, parents in re.findall(r"^class (\w+)\(([^)]*)\):", text, re.MULTILINE)
            if bases & {parent.strip() for parent in parents.split(",")}
        }
        if more <= bases:
            return bases
        bases |= more


def test_each_error_has_a_code_of_its_own(errors: set[type[ChordalError]]) -> None:
    assert {each.__name__ for each in errors} == defined(), "all of them were found"
    assert [each for each in errors if "code" not in vars(each)] == []
    codes = [each.code for each in errors]
    assert len(codes) == len(set(codes))


def test_the_page_has_a_line_for_each_code_with_its_exit_code(
    errors: set[type[ChordalError]],
) -> None:
    wanted = {each.code: 2 if issubclass(each, ConfigError) else 1 for each in errors}
    wanted |= {USAGE: 2, NO_MEMORY: 1, SYSTEM: 1, INTERNAL: 70}
    rows = ROW.findall(PAGE.read_text())
    assert {code: int(number) for code, number in rows} == wanted
    assert len(rows) == len(wanted), "one line each"


def test_the_page_has_a_line_for_each_reason_of_a_refusal() -> None:
    assert REASON.findall(PAGE.read_text()) == [each.value for each in Refused]


def test_what_is_wrong_with_a_ring_is_one_line_however_much_it_is() -> None:
    assert str(InvariantBroken(("a",))) == "a"
    assert str(InvariantBroken(("a", "b"))) == (
        "the ring is not whole, for 2 reasons; the first: a"
    )
