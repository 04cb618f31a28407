"""The files that a scenario names, each read once: a run is named by what it was made of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from overlay.errors import ConfigError
from sims.scenarios.schema import ReplayedSessions, Scenario

MARK = "#"  #: between the name of a file and the digest of its content


@dataclass(frozen=True, slots=True)
class Inputs:
    """Content of files, by the name that the scenario has for each."""

    folder: Path  #: where relative names start, for those who read of an error
    files: Mapping[str, bytes]

    def path(self, name: str) -> Path:
        """Return where a file was."""
        return self.folder / name

    def content(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            ConfigError: it was not brought along.
        """
        if name not in self.files:
            raise ConfigError(f"cannot read {self.path(name)}: it was not brought along")
        return self.files[name]

    def marked(self, scenario: Scenario) -> dict[str, str]:
        """Return each key that names a file, with name and digest: ``day.csv#0f3a5c7e9b1d2f48``.

        Raises:
            ConfigError: a file was not brought along.
        """
        return {
            key: f"{name}{MARK}{hashlib.sha256(self.content(name)).hexdigest()[:16]}"
            for key, name in _named(scenario)
        }


def read_inputs(scenario: Scenario, folder: Path) -> Inputs:
    """Read all files that a scenario names; relative names start in ``folder``.

    Raises:
        ConfigError: one cannot be read.
    """
    found = {}
    for _, name in _named(scenario):
        try:
            found[name] = (folder / name).read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {folder / name}: {error.strerror}") from None
        except ValueError as error:  # a name with a null byte
            raise ConfigError(f"cannot read {name!r}: {error}") from None
    return Inputs(folder, found)


def without_mark(key: str, value: str) -> str:
    """Return what a parameter of a run was in its scenario: names of files without a digest."""
    names_file = key == "network.matrix" or (key.startswith("churn.") and key.endswith(".file"))
    return value.rpartition(MARK)[0] or value if names_file else value


def _named(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield each key that names a file, as of ``--set``, and the name."""
    if scenario.network.matrix:
        yield "network.matrix", scenario.network.matrix
    for number, churn in enumerate(scenario.churn):
        if isinstance(churn, ReplayedSessions):
            yield f"churn.{number}.file", churn.file
