"""Reads what drills have left in a data set (``chordal drill --out DIR``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from overlay.errors import ConfigError
from overlay.ids import NANOS_PER_SECOND
from overlay.trace_schema import DEED_VERSION, SCHEMA_VERSION, Deed, Incident, Run, Source
from ring.config import profile

SCENARIO = "drill"
Row = TypeVar("Row", Run, Incident, Deed)

_FOLDERS: dict[type[msgspec.Struct], tuple[str, int]] = {
    Run: ("runs", SCHEMA_VERSION),
    Incident: ("incidents", SCHEMA_VERSION),
    Deed: ("deeds", DEED_VERSION),
}

Profile = Literal["local", "lan", "wan"]

#: What is done at one moment: kinds, in order, with how many there are of each.
Together = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What one step did, and to what: steps that have the same are repetitions."""

    n: int
    together: Together
    pause_s: float
    cut_s: float
    profile: Profile


@dataclass(frozen=True, slots=True)
class Drills:
    """All drills of a data set."""

    runs: tuple[Run, ...]
    deeds: tuple[Deed, ...]
    incidents: tuple[Incident, ...]
    conditions: dict[Conditions, int]  #: with how often each was met

    @property
    def rtt_ms(self) -> list[float]:
        """Round trips that the brokers had measured, all of them."""
        return sorted(trip for deed in self.deeds for trip in deed.rtt_ms)

    @property
    def clocks_s(self) -> float:
        """By how much times of strikes may be off against what brokers saw: the median, seconds."""
        off = sorted(deed.uncertainty_ns + deed.clocks_ns for deed in self.deeds)
        return off[len(off) // 2] / 1e9 if off else 0.0

    @property
    def beat_s(self) -> float:
        """Time between two heartbeats of the brokers, of the fastest profile that was drilled."""
        beats = [profile(each.profile).heartbeat_ns for each in self.conditions]
        return min(beats) / NANOS_PER_SECOND


class _Parameters(msgspec.Struct, frozen=True):
    """What the row of a drill says of how long things lasted."""

    pause_s: float
    cut_s: float


def read(directory: Path) -> Drills:
    """Read the drills in a data set; what else is there is passed over.

    Raises:
        ConfigError: there is none, or a file is damaged or of a newer version.
    """
    found = [run for run in _rows(directory, Run) if _is_drill(run)]
    known = {run.run_id: run for run in found}
    deeds = tuple(deed for deed in _rows(directory, Deed) if deed.run_id in known)
    keys = Counter((d.run_id, d.step, d.kind, d.subject, d.other) for d in deeds)
    if twice := [key for key, count in keys.items() if count > 1]:
        run_id, step, kind, subject, _ = twice[0]
        raise ConfigError(
            f"{directory}: the {kind} of {subject} in step {step} of {run_id} is there twice: "
            "remove the copy"
        )
    if not deeds:
        raise ConfigError(
            f"{directory} holds no drill; make one with: chordal drill --start 5 --kill 1 --rounds "
            f"20 --out {directory}"
        )
    steps: dict[tuple[str, int], list[Deed]] = {}
    for deed in deeds:
        steps.setdefault((deed.run_id, deed.step), []).append(deed)
    conditions = Counter(_conditions(known[run_id], step) for (run_id, _), step in steps.items())
    incidents = tuple(row for row in _rows(directory, Incident) if row.run_id in known)
    return Drills(tuple(found), deeds, incidents, dict(conditions))


def _is_drill(run: Run) -> bool:
    return run.source is Source.LIVE and run.scenario == SCENARIO


def _conditions(run: Run, step: list[Deed]) -> Conditions:
    try:
        lasting = msgspec.json.decode(run.parameters, type=_Parameters)
        profile = msgspec.convert(run.profile, Profile)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"run {run.run_id}: it is not that of a drill") from error
    together = tuple(sorted(Counter(deed.kind for deed in step).items()))
    return Conditions(step[0].n, together, lasting.pause_s, lasting.cut_s, profile)


def _rows(directory: Path, record: type[Row]) -> Iterator[Row]:
    folder, newest = _FOLDERS[record]
    for path in sorted((directory / folder).glob("[!._]*.jsonl")):
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from None
        for number, line in enumerate(lines, start=1):
            try:
                row = msgspec.json.decode(line, type=record)
            except msgspec.MsgspecError as error:
                raise ConfigError(f"{path}, line {number}: {error}; remove the line") from None
            if row.schema_version > newest:
                raise ConfigError(
                    f"{path} is of version {row.schema_version}, and this chordal reads up to "
                    f"{newest}; update it"
                )
            yield row
