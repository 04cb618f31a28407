"""Pages of reference, made of the code when the site is built.

``commands``, ``client``, ``settings``, ``errors``, ``schema`` (a page each), ``markdown``.
"""

from __future__ import annotations

from pathlib import Path

from making import client, commands, errors, schema, settings

PAGES = {
    "commands": commands.page,
    "settings": settings.page,
    "errors": errors.page,
    "schema": schema.page,
    "client": client.page,
}


def put(path: Path, text: str) -> None:
    """Write a file, unless it says that already: what has not changed is not built again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def write(folder: Path) -> None:
    """Write all of these pages."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        put(folder / f"{name}.md", page())
