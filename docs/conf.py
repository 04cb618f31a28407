"""How the pages become a site: ``make docs``.

Pages of ``docs/`` link to each other and to files of the repository as they do on disk. Here what
Sphinx cannot know is told it: reference pages are made of the code, and some pages from outside of
``docs/`` are taken in as ``project/``.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

project = "chordal"
author = "the authors of chordal"
extensions = ["myst_parser"]
myst_heading_anchors = 4  # links name headings as they do on the pages of a repository
html_theme = "alabaster"  # it loads nothing from elsewhere
html_theme_options = {
    "description": "Brokers that organise themselves",
    "fixed_sidebar": True,
    "page_width": "1080px",  # most commands fit, and a narrower window has no sidebar
}
html_show_sourcelink = False
html_show_copyright = False
exclude_patterns = ["site"]

#: Pages from outside, by the page that each becomes.
TAKEN_IN = {
    ROOT / "README.md": DOCS / "project" / "README.md",
    ROOT / "CHANGELOG.md": DOCS / "project" / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md": DOCS / "project" / "CONTRIBUTING.md",
    ROOT / "deploy" / "README.md": DOCS / "project" / "deploy.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def _relinked(text: str, source: Path, page: Path) -> str:
    """Return the text of a file, with links that hold where its page stands."""

    def relink(found: re.Match[str]) -> str:
        target = (source.parent / found[2]).resolve()
        if target.is_dir():  # a site has no page for a folder
            return f"`{found[1]}`"
        path = os.path.relpath(TAKEN_IN.get(target, target), page.parent)
        return f"[{found[1]}]({path}{found[3] or ''})"

    return _LINK.sub(relink, text)


def _make_pages(app: Sphinx) -> None:
    import making

    making.write(DOCS / "reference")
    (DOCS / "project").mkdir(exist_ok=True)
    for source, page in TAKEN_IN.items():
        making.put(page, _relinked(source.read_text(), source, page))


def _link(app: Sphinx, name: str, text: list[str]) -> None:
    """Have links to a page that was taken in lead there."""
    page = DOCS / f"{name}.md"
    if page not in TAKEN_IN.values():
        text[0] = _relinked(text[0], page, page)


def setup(app: Sphinx) -> None:
    """Hook these in, as Sphinx has it."""
    app.connect("builder-inited", _make_pages)
    app.connect("source-read", _link)
