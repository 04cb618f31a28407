"""README, the tutorial and the how-tos, followed with real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlay.net.free_ports import free_ports
from tests.docs.pages import blocks, moved, pattern, ports_in
from tests.docs.session import ROOT, session

DOCS = ROOT / "docs"
README = ROOT / "README.md"
HOWTOS = sorted((DOCS / "howto").glob("*.md"))
QUICK = ("add", "monitor")  #: these take some seconds, and the others longer
WITH_SPARK = ("experiment",)

live = pytest.mark.live


def follow(page: Path, folder: Path) -> None:
    """Run the blocks of a page in order, on free ports, and look for what they print."""
    named = ports_in(page)
    ports = dict(zip(named, free_ports(len(named)) if named else (), strict=True))
    folder.mkdir()
    asked = ""
    with session(folder) as shell:
        for block in blocks(page):
            text = moved(block.body, ports)
            if not block.is_run:
                continue
            if block.kind == "text":
                shell.sees(text, asked)
            elif block.kind == "sh":
                shell.run(text, block.code)
                asked = text if block.asks else ""
            else:
                (folder / block.name).write_text(text)


@live
def test_the_quick_start(tmp_path: Path) -> None:
    follow(README, tmp_path / "here")


@live
def test_the_tutorial(tmp_path: Path) -> None:
    follow(DOCS / "tutorial.md", tmp_path / "here")


def _marked(page: Path) -> object:
    marks = [] if page.stem in QUICK else [pytest.mark.soak]
    marks += [pytest.mark.spark] if page.stem in WITH_SPARK else []
    return pytest.param(page, id=page.stem, marks=marks)


@live
@pytest.mark.parametrize("page", [_marked(page) for page in HOWTOS])
def test_a_how_to(page: Path, tmp_path: Path) -> None:
    follow(page, tmp_path / "here")


def test_what_is_not_run_says_why_and_little_is_not() -> None:
    pages = [README, DOCS / "tutorial.md", *HOWTOS]
    assert len(pages) == 9
    for page in pages:
        found = list(blocks(page))
        commands = [block for block in found if block.kind != "text"]
        assert sum(block.is_run for block in commands) >= len(commands) - 1, page
        assert all(block.name for block in commands if block.kind == "python"), page
        assert found[0].kind != "text"


@pytest.mark.parametrize(
    ("text", "printed", "is_found"),
    [
        ("a b", "x\na   b\n", True),
        ("a ... c", "a b c", True),
        ("{1}", "{1}", True),
        ("a ... c", "c a", False),
        ("whole", "who le", False),
    ],
)
def test_an_output_is_compared(text: str, printed: str, *, is_found: bool) -> None:
    assert bool(pattern(text).search(printed)) is is_found


@live
@pytest.mark.parametrize("block", ["false\necho on", "exit 3", "chordal pub a/# x"])
def test_a_command_that_fails_fails_the_page(block: str, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    with session(folder) as shell:
        shell.run("echo good")
        shell.sees("good")
        with pytest.raises(AssertionError, match="failed"):
            shell.run(block)
