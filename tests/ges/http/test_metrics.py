"""Metrics over HTTP: in both forms that Prometheus reads, named as it wants, and documented."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.http.settings import DEFAULT_PORT
from overlay.ids import short
from tests.ges.http.admin import admin_of, get

ROOT = Path(__file__).parents[3]
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
LABELS = {"broker", "what", "peer", "class", "reason", "verdict", "level", "kind", "le"}


async def families(brokers: Brokers, accept: str = OPENMETRICS) -> tuple[str, list[Metric]]:
    """Return what a broker of a ring of three tells, and in which form."""
    here, *_ = await brokers.ring_of(3)
    await until(lambda: all(link.rtt_ms is not None for link in here.status().links))
    async with admin_of(here) as app:
        found = await get(app, "/metrics", accept=accept)
    assert found.status == 200
    kind = found.headers["content-type"]
    return kind, parsed(found.text) if "openmetrics" in kind else list(plain(found.text))


def parsed(text: str) -> list[Metric]:
    """Return what is told in OpenMetrics."""
    return list(openmetrics(text))  # type: ignore[no-untyped-call]


async def test_the_reader_chooses_the_form(brokers: Brokers) -> None:
    kind, told = await families(brokers)
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert len(told) > 50


async def test_without_a_wish_it_is_the_form_that_all_read(brokers: Brokers) -> None:
    kind, told = await families(brokers, accept="*/*")
    assert kind.startswith("text/plain; version=0.0.4")
    assert len(told) > 50


async def test_names_and_labels_are_as_prometheus_wants(brokers: Brokers) -> None:
    _, told = await families(brokers)
    for family in told:
        assert re.fullmatch(r"chordal_[a-z0-9_]+", family.name)
        assert not re.search(r"(_ms|_kb|_percent)\b", family.name), "base units"
        assert family.documentation.endswith(".")
        for sample in family.samples:
            assert set(sample.labels) <= LABELS
            assert "broker" in sample.labels
            if family.type == "counter":
                assert sample.name == f"{family.name}_total"


async def test_what_is_told_is_so(brokers: Brokers) -> None:
    here, *_ = await brokers.ring_of(3)
    async with admin_of(here) as app:
        await until(lambda: all(link.rtt_ms is not None for link in here.status().links))
        text = (await get(app, "/metrics")).text
    samples = [
        (found[1], set(found[2].split(",")), found[3])
        for found in re.finditer(r"^([a-z_]+)\{(.*)\} (.*)$", text, re.MULTILINE)
    ]
    uid = here.node.peer.uid
    others = [member.uid for member in here.node.ring.right]
    for line in (
        "chordal_on_ring{%s} 1.0",
        "chordal_ring_whole{%s} 1.0",
        "chordal_ring_degree{%s} 2.0",
        "chordal_ring_survives_brokers{%s} 1.0",
        'chordal_links{%s,class="normal"} 2.0',
        "chordal_suspicions_total{%s} 0.0",
        'chordal_verdicts_total{%s,verdict="broker_failed"} 0.0',
        'chordal_events_dropped_total{%s,reason="lost"} 0.0',
        "chordal_repair_seconds_count{%s} 0.0",
    ):
        name, _, rest = line.partition("{%s")
        labels = {f'broker="{uid}"', *filter(None, rest.partition("}")[0].split(","))}
        assert (name, labels, rest.partition("} ")[2]) in samples, line
    for other in others:
        assert re.search(
            rf'chordal_link_rtt_seconds{{[^}}]*peer="{short(other)}"[^}}]*}} 0\.\d+', text
        )


async def test_a_death_is_counted_with_its_times(brokers: Brokers) -> None:
    ring = await brokers.ring_of(4)
    here, victim = ring[0], ring[1]
    async with admin_of(here) as app:
        neighbours = {m.uid for m in (*here.node.ring.left, *here.node.ring.right)}
        assert victim.node.peer.uid in neighbours
        brokers.kill(victim)
        await until(lambda: any(i.repaired_s for i in here.status().incidents))
        text = (await get(app, "/metrics", accept=OPENMETRICS)).text
    told = {sample.name: sample for family in parsed(text) for sample in family.samples}
    assert told["chordal_suspicions_total"].value >= 1
    assert told["chordal_detection_seconds_count"].value == 1
    assert told["chordal_repair_seconds_count"].value == 1
    assert 0 < told["chordal_repair_seconds_sum"].value < 10
    assert re.search(r'chordal_verdicts_total\{.*verdict="broker_failed".*\} 1.0', text)


async def test_every_metric_is_documented(brokers: Brokers) -> None:
    """On the page on monitoring, or as a counter on that of counters."""
    _, told = await families(brokers)
    page = (ROOT / "docs/monitoring.md").read_text()
    counters = (ROOT / "docs/counters.md").read_text()
    for family in told:
        counter = family.name.removeprefix("chordal_")
        assert f"`{family.name}`" in page or f"`{counter}`" in counters, family.name


async def test_every_metric_documented_is_told(brokers: Brokers) -> None:
    _, told = await families(brokers)
    names = {family.name for family in told} | {"chordal_certificate_expires_in_seconds"}
    page = (ROOT / "docs/monitoring.md").read_text()
    documented = set(re.findall(r"^\| `(chordal_[a-z_]+)`", page, re.MULTILINE))
    assert len(documented) > 20
    assert documented - names == set()


# The files in deploy/


def queries(part: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield the queries of a dashboard, wherever they stand."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name in ("expr", "definition"):
                yield value
            else:
                yield from queries(value)
    elif isinstance(part, list):
        for each in part:
            yield from queries(each)


async def test_the_dashboard_asks_for_what_there_is(brokers: Brokers) -> None:
    dashboard = json.loads((ROOT / "deploy/grafana/chordal.json").read_text())
    _, told = await families(brokers)
    samples = {sample.name: set(sample.labels) for family in told for sample in family.samples}
    asked = list(queries(dashboard))
    assert len(asked) > 20
    for query in asked:
        names = re.findall(r"chordal_[a-z_]+", query)
        assert names, query
        for name in names:
            assert name in samples, f"{query}: there is no {name}"
        for by in re.findall(r"by \(([a-z, ]+)\)", query):
            wanted = set(by.replace(" ", "").split(","))
            assert wanted <= samples[names[0]] | {"le"}, query
        assert query.count("(") == query.count(")"), query


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    dashboard = json.loads((ROOT / "deploy/grafana/chordal.json").read_text())
    cells: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        own = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not own & cells, panel["title"]
        cells |= own
        assert panel["title"]
        assert panel["description"].endswith(".")


def test_the_scrape_file_reads_the_default_port() -> None:
    config = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())
    [job] = config["scrape_configs"]
    assert job["job_name"] == "chordal"
    assert "metrics_path" not in job  # the default is right
    [static] = job["static_configs"]
    assert static["targets"][0] == f"127.0.0.1:{DEFAULT_PORT}"
