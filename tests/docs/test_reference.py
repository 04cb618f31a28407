"""The pages of reference that are made of the code say all that there is, and the site is whole."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest

from ges.cli.main import cli
from ges.settings.gathering import TABLE
from overlay.errors import ChordalError
from overlay.trace_schema import Incident, Probe, Run, Traffic
from tests.docs.session import ROOT

DOCS = ROOT / "docs"
BUILD_SECONDS = 300.0
#: What a page loads by itself: none of it may come from elsewhere.
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, made by the code that `make docs` makes them by."""
    folder = tmp_path_factory.mktemp("made") / "reference"
    code = "import sys, pathlib, making; making.write(pathlib.Path(sys.argv[1]))"
    environment = {"PYTHONPATH": f"{DOCS}:{ROOT}", "PATH": ""}
    subprocess.run([sys.executable, "-c", code, str(folder)], env=environment, check=True)
    return folder


def headings(page: Path) -> set[str]:
    return set(re.findall(r"^#+ `(.+)`$", page.read_text(), re.MULTILINE))


def cells(page: Path) -> set[str]:
    """The first cell of each row."""
    return set(re.findall(r"^\| `([^`]+)` \|", page.read_text(), re.MULTILINE))


def commands(command: click.Command, name: str) -> Iterator[str]:
    yield name
    if isinstance(command, click.Group):
        for child in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), child)
            assert found is not None
            yield from commands(found, f"{name} {child}")


def test_each_command_has_its_part(made: Path) -> None:
    found = headings(made / "commands.md")
    assert found == set(commands(cli, "chordal"))
    assert {"chordal serve", "chordal sim run", "chordal recovery sweep"} <= found
    assert "--require-identity / --no-require-identity" in cells(made / "commands.md")


def test_each_setting_has_its_row(made: Path) -> None:
    assert cells(made / "settings.md") == {each.name for each in TABLE}


def test_each_error_class_has_its_row_with_its_code(made: Path) -> None:
    page = made / "errors.md"
    rows = dict(re.findall(r"^\| `([\w.]+)` \| [^|]+ \| `([\w-]+)` \|", page.read_text(), re.M))
    assert rows.pop("overlay.errors.ChordalError") == ChordalError.code
    assert rows["ges.errors.PublishRefused"] == "publish-refused"
    listed = set(re.findall(r"^\| `([a-z-]+)` \| \d+ \|", (DOCS / "errors.md").read_text(), re.M))
    assert set(rows.values()) <= listed, "what to do is said on the other page"


def test_each_column_has_its_row_and_what_the_code_says_of_it(made: Path) -> None:
    text = (made / "schema.md").read_text()
    for record in (Run, Incident, Probe, Traffic):
        for name in record.__struct_fields__:
            assert f"| `{name}` | " in text
    assert "| `failed_ns` | int64 | yes |" in text
    assert "| `seed` | int64 | yes |  |" in text, "it has no comment, and gets none of another"
    assert "| `nodes` | int64 | yes | brokers the ring was formed of" in text


def test_the_client_is_there_with_arguments(made: Path) -> None:
    text = (made / "client.md").read_text()
    assert {"connect", "Client.publish", "Client.subscribe"} <= headings(made / "client.md")
    assert "link_class: LinkClass" in text
    assert " at 0x" not in text, "an object as a default would differ from build to build"


class Links(HTMLParser):
    """What one page of the site links to, loads and can be linked to by."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.page = page
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names.add(given.get("id") or "")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        elif found := given.get(LOADED.get(tag, "")):
            self.loaded.append(found)


@pytest.mark.soak
def test_the_site_is_built_without_a_warning_and_can_be_read_without_a_network(
    tmp_path: Path,
) -> None:
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(DOCS), str(site)],
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    pages = {page.resolve(): Links(page) for page in site.rglob("*.html")}
    assert len(pages) > 80
    for page in pages.values():
        for target in (*page.loaded, *page.links):
            parts = urlsplit(target)
            if parts.scheme:
                assert target in page.links, f"{page.page} loads {target}"
                continue
            file = (page.page.parent / unquote(parts.path)).resolve() if parts.path else page.page
            assert file.exists(), f"{page.page} names {target}"
            if parts.fragment and file.resolve() in pages:
                names = pages[file.resolve()].names
                assert unquote(parts.fragment) in names, f"{page.page} names {target}"
