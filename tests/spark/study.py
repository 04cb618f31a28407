"""A planted study: rows whose answers plain Python finds as well, with all that is awkward in data.

Two groups that differ in a setting, of three sizes and eight seeds each. Times lie on a grid of
10 ms, so many are equal. Some incidents are open, refuted, or of brokers that lived; one size has a
single incident, and one more has nearly all of its incidents in one run. One live broker has
written as well, and one incident has no run.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from overlay.ids import LinkClass
from overlay.trace_schema import Fate, Incident, Probe, Run, Struck, Verdict, Why
from spark.dataset.column_types import arrow_table
from tests.helpers import rows as helper_rows
from tests.spark import rows
from tests.spark.rows import S

SIZES = (64, 256, 1024)
SEEDS = range(1, 9)
RANK, NONE = '{"chords":"rank"}', '{"chords":"none"}'
GRID = S // 100


@dataclass(slots=True)
class Study:
    """Its rows."""

    runs: list[Run] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)

    def of(self, parameters: str | None, n: int | None) -> list[tuple[Run, Incident]]:
        """Return the incidents of a cell, each with its run."""
        runs = {
            run.run_id: run
            for run in self.runs
            if run.nodes == n and (parameters is None or run.parameters == parameters)
        }
        return [(runs[i.run_id], i) for i in self.incidents if i.run_id in runs]

    def write(self, directory: Path) -> Path:
        """Write the data set."""
        write_rows(directory / "runs" / "all.parquet", Run, self.runs)
        write_rows(directory / "incidents" / "all.parquet", Incident, self.incidents)
        by_nodes: dict[int, list[Probe]] = {}
        nodes = {run.run_id: run.nodes for run in self.runs}
        for probe in self.probes:
            by_nodes.setdefault(nodes[probe.run_id] or 0, []).append(probe)
        for n, probes in by_nodes.items():
            folder = directory / "probes" / "scenario=crash" / f"nodes={n}"
            write_rows(folder / "all.parquet", Probe, probes)
        return directory


def write_rows(path: Path, record: type[msgspec.Struct], written: Sequence[msgspec.Struct]) -> None:
    """Write rows to one Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(arrow_table(record, written), path)


def study() -> Study:
    """Return the study; it is the same each time."""
    made = Study()
    rng = random.Random(11)
    for parameters, slower in ((RANK, 1.0), (NONE, 1.5)):
        for n in SIZES:
            for seed in SEEDS:
                run = _run(made, parameters, n, seed)
                luck = rng.lognormvariate(0, 0.05)
                made.incidents += _incidents(rng, run, 6, luck * slower * (n.bit_length() - 1) / 6)
    alone = _run(made, RANK, 16, 1)
    made.incidents += _incidents(rng, alone, 1, 1.0, plain=True)
    for seed, count in ((1, 400), (2, 1), (3, 2)):
        skewed = _run(made, RANK, 4096, seed)
        made.incidents += _incidents(rng, skewed, count, 1.0)
    live = rows.run("live", source="live", scenario="live", nodes=None, seed=None, profile="wan")
    made.runs.append(msgspec.structs.replace(live, duration_ns=None))
    made.incidents += [
        rows.incident("live", at, failed_ns=None, n=None, observer="me") for at in range(3)
    ]
    made.incidents.append(rows.incident("no such run"))
    made.probes += _probes(made.runs[:4])
    return made


def _run(made: Study, parameters: str, n: int, seed: int) -> Run:
    name = f"{'rank' if parameters == RANK else 'none'}-{n}-{seed}"
    made.runs.append(rows.run(name, parameters=parameters, nodes=n, seed=seed))
    return made.runs[-1]


def _incidents(
    rng: random.Random, run: Run, count: int, slow: float, *, plain: bool = False
) -> Iterable[Incident]:
    for number in range(count):
        failed = rng.randrange(1, 90) * S
        suspected = failed + _grid(rng, 2.0 * rng.lognormvariate(0, 0.1))
        confirmed = suspected + _grid(rng, 0.2)
        repaired = confirmed + _grid(rng, slow * rng.lognormvariate(0, 0.25))
        row = rows.incident(
            run.run_id,
            number,
            n=run.nodes,
            failed_ns=failed,
            suspected_ns=suspected,
            confirmed_ns=confirmed,
            repaired_ns=repaired,
            chords_repaired_ns=repaired + S,
            messages=rng.randrange(20, 26),
        )
        kind = 1.0 if plain else rng.random()
        if kind < 0.05:
            row = msgspec.structs.replace(row, repaired_ns=None, chords_repaired_ns=None)
        elif kind < 0.10:
            row = msgspec.structs.replace(row, verdict=Verdict.REFUTED, failed_ns=None)
        elif kind < 0.13:
            row = msgspec.structs.replace(row, verdict=Verdict.LINK_FAILED, failed_ns=None)
        elif kind < 0.15:
            row = msgspec.structs.replace(row, failed_ns=None)
        elif kind < 0.17:  # suspected before it failed
            row = msgspec.structs.replace(row, suspected_ns=failed - S // 10)
        yield _in_units(row, number) if run.parameters == RANK else row


def _in_units(row: Incident, number: int) -> Incident:
    """Return an incident of brokers in units that own records: it draws nothing."""
    if row.failed_ns is None:
        return row
    after = None if number % 5 == 3 else row.failed_ns + (2 + number % 7) * S
    level, lost = (1, 1, 2, 4)[number % 4], number % 3
    return msgspec.structs.replace(row, level=level, units_repaired_ns=after, records_lost=lost)


def _grid(rng: random.Random, seconds: float) -> int:
    return max(1, round(seconds * rng.lognormvariate(0, 0.01) * S / GRID)) * GRID


def _probes(runs: Sequence[Run]) -> Iterable[Probe]:
    """Return flows of twenty events each, one every 100 ms, of which a crash at 1 s takes some."""
    for at, run in enumerate(runs):
        for name, lost in (("s0", 3 + at), ("s1", 0)):
            for sequence in range(1, 21):
                published = sequence * S // 10
                gone = 10 <= sequence < 10 + lost
                struck = Struck.SUBSCRIBER if lost else Struck.OTHER
                near = sequence >= 10
                yield helper_rows.probe(
                    run_id=run.run_id,
                    subscriber=name,
                    sequence=sequence,
                    published_ns=published,
                    delivered_ns=None if gone else published + S // 100,
                    copies=0 if gone else 2 if sequence == 20 else 1,
                    fate=Fate.LOST if gone else Fate.TWICE if sequence == 20 else Fate.ONCE,
                    is_late=sequence == 15 and not gone,
                    why=Why.BROKER_DIED if gone else None,
                    link_class=LinkClass.NORMAL,
                    fault="crash" if near else None,
                    fault_ns=S if near else None,
                    struck=struck if near else None,
                )
