"""The page of all settings, made of the structs that they are fields of."""

from __future__ import annotations

from ges.settings import reference
from making.markdown import NOTE


def page() -> str:
    """Return the page."""
    tables = reference.page().replace("\n### ", "\n## ").removeprefix("#")
    return f"""# Settings

{NOTE}
Each can be said in a file (key), in an environment variable, or by a flag of `chordal serve`.
[configuration.md](../configuration.md) says which is stronger, and how to change one while a
broker runs.

{tables}"""
