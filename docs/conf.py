"""How the pages become a site: ``make docs``.

Pages of ``docs/`` link to each other and to files of the repository as they do on disk. Here what
Sphinx cannot know is told it: reference pages are made of the code, and the pages at the root of
the repository are taken in as ``project/``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

project = "chordal"
author = "the authors of chordal"
extensions = ["myst_parser"]
myst_heading_anchors = 4  # links name headings as they do on the pages of a repository
html_theme = "alabaster"
html_theme_options = {"description": "Brokers that organise themselves", "fixed_sidebar": True}
html_show_sourcelink = False
exclude_patterns = ["site"]

#: Pages at the root of the repository.
TAKEN_IN = ("README", "CHANGELOG", "CONTRIBUTING")
_TO_DOCS = re.compile(r"\]\(docs/")
_TO_FOLDERS = re.compile(r"\[([^\]]+)\]\((?:deploy|examples)/?\)")
_TO_OTHERS = re.compile(r"\]\((?=(?:deploy|examples)/)")


def _make_pages(app: Sphinx) -> None:
    import making

    making.write(DOCS / "reference")
    folder = DOCS / "project"
    folder.mkdir(exist_ok=True)
    for name in TAKEN_IN:
        text = _TO_FOLDERS.sub(r"`\1`", (ROOT / f"{name}.md").read_text())
        text = _TO_OTHERS.sub("](../../", _TO_DOCS.sub("](../", text))
        making.put(folder / f"{name}.md", text)


def _link(app: Sphinx, page: str, source: list[str]) -> None:
    """Have links to the root of the repository lead to the pages that were taken in."""
    if page.startswith("project/"):
        return
    up = "../" * page.count("/")
    names = "|".join(TAKEN_IN)
    source[0] = re.sub(rf"\]\({up}\.\./({names})\.md", rf"]({up}project/\1.md", source[0])


def setup(app: Sphinx) -> None:
    """Hook these in, as Sphinx has it."""
    app.connect("builder-inited", _make_pages)
    app.connect("source-read", _link)
