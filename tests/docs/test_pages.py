"""Pages stay short, their tables render, all are listed, and no sentence begins with "Whoever"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.docs.session import ROOT

DOCS = ROOT / "docs"
MOST_OF_README = 1_200
MOST = 2_200  #: words outside of examples: ten minutes
TO_SEARCH_IN = {"counters.md", "errors.md", "limits.md", "settings.md"}  #: tables, not read through
#: These take longer. A page that has become shorter is taken out here, and none is added.
LONGER = {"scenarios.md", "simulator.md", "study.md"}
MADE = {"reference", "project", "site"}  #: folders that ``make docs`` fills


def pages() -> Iterator[Path]:
    for page in sorted(DOCS.rglob("*.md")):
        if not MADE & set(page.relative_to(DOCS).parts):
            yield page


def prose(page: Path) -> list[str]:
    """Return the lines of a page outside of its examples."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [line for line in text.splitlines() if not line.startswith("    ")]


def words(page: Path) -> int:
    return sum(re.search(r"\w", word) is not None for line in prose(page) for word in line.split())


def faults_of_tables(lines: list[str]) -> list[str]:
    """Return the first rows of tables without a line below that makes them a header."""
    found = []
    for is_table, rows in groupby(lines, key=lambda line: line.lstrip().startswith("|")):
        block = list(rows)
        if is_table and not (len(block) > 1 and re.fullmatch(r"\s*\|[-:| ]+", block[1])):
            found.append(block[0])
    return found


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= MOST_OF_README


def test_a_page_takes_ten_minutes() -> None:
    long = {str(page.relative_to(DOCS)) for page in pages() if words(page) > MOST}
    assert long - TO_SEARCH_IN == LONGER


def test_tables_render() -> None:
    found = [(page.name, row) for page in pages() for row in faults_of_tables(prose(page))]
    assert found == []


@pytest.mark.parametrize(
    ("lines", "faults"),
    [
        (["| a |", "|---|", "| b |"], []),
        (["| b |", "| a |", "|---|"], ["| b |"]),
        (["| a |"], ["| a |"]),
    ],
)
def test_a_table_without_a_header_is_found(lines: list[str], faults: list[str]) -> None:
    assert faults_of_tables(lines) == faults


def test_all_pages_are_listed() -> None:
    listed = set(re.findall(r"\]\(([\w/-]+\.md)", (DOCS / "README.md").read_text()))
    others = {"README.md", "index.md"}
    found = {str(page.relative_to(DOCS)) for page in pages()} - others
    assert {page for page in found if not page.startswith("decisions/")} <= listed


def test_no_sentence_has_whoever_for_its_subject() -> None:
    roots = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages()]
    found = [
        f"{page.name}: {line}"
        for page in roots
        for line in prose(page)
        if re.search(r"\bwhoever\b", line, re.IGNORECASE)
    ]
    assert found == []
