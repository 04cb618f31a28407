"""The scenarios that come with chordal: files beside this one, to be copied and changed."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from overlay.errors import ConfigError
from sims.scenarios.files import ScenarioFile, parse, read

FOLDER = Path(__file__).with_name("library")


def names() -> list[str]:
    """Return the names of all, in order of the alphabet."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def about() -> dict[str, str]:
    """Return what each is about, by name."""
    return {name: parse(read(FOLDER / f"{name}.toml")).about for name in names()}


def find(name: str, others: Iterable[str] = ()) -> ScenarioFile:
    """Return the scenario of that name, or in that file if the name ends in ``.toml``.

    ``others``: further names that would have been right.

    Raises:
        ConfigError: there is none; the text says which name is nearest.
    """
    if name.endswith(".toml"):
        return read(Path(name))
    known = names()
    if name in known:
        return read(FOLDER / f"{name}.toml")
    [nearest] = get_close_matches(name, [*known, *others], n=1, cutoff=0.0)
    raise ConfigError(
        f"no scenario {name!r}; nearest is {nearest!r}; 'chordal sim list' lists all, "
        "and a file of your own ends in .toml"
    )
