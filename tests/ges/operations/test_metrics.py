"""Metrics: in the form Prometheus reads, and none missing from the start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.stage.brokers import Brokers
from ges.client import connect
from ges.operations.metrics import COUNTED, families_of, text_of

SAMPLE = re.compile(
    r'chordal_[a-z_]+\{broker="[0-9a-f]{32}"(,(class|what|reason|level|kind|peer)="[a-z0-9_]+")*\}'
    r" -?[0-9.e+-]+"
)
ROOT = Path(__file__).parents[3]
COUNTERS = ROOT / "docs" / "counters.md"
#: How the code counts: by a counter's name, by the counted log, or as a kind that it tells later.
COUNTS = re.compile(
    r"""(?:counters\[|(?:otices|_log)\.(?:count|note)\(|_drop\(|kind(?:, why)? = )"""
    r"""\s*f?"([a-z]+_[a-z_]*)["{]"""
)


async def test_every_line_is_a_sample_or_says_what_one_is(brokers: Brokers) -> None:
    here, _ = await brokers.ring_of(2)
    async with connect(here.url) as client, client.subscribe("a"):
        status = await client.status()
    text = text_of(status.uid, families_of(status))
    assert text.endswith("\n")
    assert "see docs/counters.md" in text
    described: list[str] = []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            described.append(line.split()[2])
        elif not line.startswith("# HELP "):
            assert SAMPLE.fullmatch(line), line
            assert line.startswith(f"{described[-1]}{{")
    assert len(described) == len(set(described))
    uid = here.node.peer.uid
    assert f'chordal_clients{{broker="{uid}"}} 1.0\n' in text
    assert f'chordal_subscriptions{{broker="{uid}"}} 1.0\n' in text
    for name in COUNTED:
        assert re.search(rf"^chordal_{name}_total{{.*}} \d+\.0$", text, re.MULTILINE), name


def counted() -> Iterator[str]:
    """Name the counters that the code has; of those made of two parts the first."""
    for package in ("overlay", "ring", "ges"):
        for path in (ROOT / package).rglob("*.py"):
            for match in COUNTS.finditer(path.read_text()):
                yield match[1]


def named(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", text))


def test_every_counter_is_documented() -> None:
    """On the page that the metrics name."""
    text = COUNTERS.read_text()
    names = {*counted(), *COUNTED, *_dropped_names()}
    assert len(names) > 50, "the pattern has found them"
    known = named(text)
    assert [
        name
        for name in sorted(names)
        if name not in known and not (name.endswith("_") and f"`{name}" in text)
    ] == []


def _dropped_names() -> set[str]:
    return set(
        re.findall(r'"([a-z_]+_for_clients)"', (ROOT / "ges/sessions/clients.py").read_text())
    )


async def test_every_metric_is_documented(brokers: Brokers) -> None:
    here, _ = await brokers.ring_of(2)
    async with connect(here.url) as client, client.subscribe("a"):
        await client.publish("a", confirm=True)
        status = await client.status()
    text = text_of(status.uid, families_of(status))
    known = named(COUNTERS.read_text()) | named((ROOT / "docs" / "monitoring.md").read_text())
    known |= {name.removeprefix("chordal_") for name in known}
    metrics = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    names = {
        name.removeprefix("chordal_").removesuffix("_total") for name in metrics if "_total" in name
    }
    names |= {name for name in metrics if "_total" not in name}
    assert {"control_messages_sent", "chordal_on_ring"} <= names
    assert sorted(names - known) == []


def test_no_counter_is_documented_that_there_is_not() -> None:
    tables = COUNTERS.read_text().split("\n| counter | what it counts |\n|---|---|\n")[1:]
    firsts = {row.split("|")[1] for table in tables for row in table.split("\n\n")[0].splitlines()}
    documented = named(" ".join(firsts))
    assert len(documented) > 50, "the tables are found"
    names = {*counted(), *_dropped_names()}
    for name in sorted(documented):
        assert any(name == each or (each.endswith("_") and name.startswith(each)) for each in names)
