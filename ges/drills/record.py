"""The data set of a drill: a row of the run, its incidents, and what was done.

JSON lines, as a live broker writes them, with the columns of :mod:`overlay.trace_schema`. A line is
appended when a step is over, so what was measured is kept however the drill ends.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from overlay.errors import ConfigError
from overlay.release import software_version
from overlay.security.own_file import append
from overlay.trace_schema import Deed, Incident, Run, Source
from overlay.wording import why_no_folder

SCENARIO = "drill"
RUNS, INCIDENTS, DEEDS = "runs", "incidents", "deeds"


class Record:
    """What a drill has done and seen; and its files, if there is a folder for them."""

    def __init__(self, directory: Path | None) -> None:
        """Make the folders, so that it fails before anything is broken.

        Raises:
            ConfigError: they cannot be made.
        """
        started = time.time_ns()
        self.run_id = f"{SCENARIO}-{started:x}"
        self.run: Run | None = None
        self.incidents: list[Incident] = []
        self.deeds: list[Deed] = []
        self.files: dict[str, Path] = {}
        self._started_unix_ns = started
        if directory is None:
            return
        for name in (RUNS, INCIDENTS, DEEDS):
            try:
                (directory / name).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"--out {directory / name}: {why_no_folder(error)}") from None
            self.files[name] = directory / name / f"{self.run_id}.jsonl"

    def begin(self, nodes: int, profile: str, parameters: Mapping[str, object]) -> None:
        """Write the row of the run: a ring of so many brokers is there."""
        self.run = Run(
            run_id=self.run_id,
            source=Source.LIVE,
            scenario=SCENARIO,
            nodes=nodes,
            seed=None,  # that of the drill says what is struck, and decides no result
            profile=profile,
            version=software_version(),
            started_unix_ns=self._started_unix_ns,
            duration_ns=None,
            parameters=msgspec.json.encode(parameters, order="sorted").decode(),
        )
        self._append(RUNS, self.run)

    def add(self, incidents: list[Incident], deeds: list[Deed]) -> None:
        """Write what one step did and showed."""
        self.incidents += incidents
        self.deeds += deeds
        for incident in incidents:
            self._append(INCIDENTS, incident)
        for deed in deeds:
            self._append(DEEDS, deed)

    def _append(self, name: str, row: Run | Incident | Deed) -> None:
        if name not in self.files:
            return
        try:
            append(self.files[name], msgspec.json.encode(row) + b"\n")
        except OSError as error:
            raise ConfigError(f"cannot write {self.files[name]}: {error.strerror}") from None
