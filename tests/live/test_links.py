"""Express events and slow readers, through the command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.stage.in_process import LIMIT_SECONDS, chordal_here
from benchmarks.stage.processes import REPOSITORY, Broker, Fleet
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live

COUNT = 120
PAYLOAD = "x" * 120_000  #: all together nearly 15 MB, beside what the kernel takes: several MB
MEMORY_BYTES = 64 * 1024 * 1024  #: that the broker may take beyond what it had


def memory(broker: Broker) -> int:
    """Return the bytes that a broker has in memory."""
    for line in Path(f"/proc/{broker.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def test_an_express_event_says_how_it_came(brokers: Fleet) -> None:
    ring = brokers.ring_of(2, "--express-range", "5s", "--express-budget", "20s")
    for broker in ring:
        eventually(
            lambda broker=broker: any(  # type: ignore[misc]
                link["link_class"] == "express" and not link["demoted"]
                for link in broker.status()["links"]
            )
        )
    subscriber = brokers.subscriber("t", ring[1].url, "--json", "--count", "3")
    for budget in ((), ("--budget", "10s"), ("--budget", "1us")):
        arguments = ("--class", "express", *budget, "--broker", ring[0].url)
        published = chordal_here("pub", "t", "now", *arguments)
        assert published.returncode == 0, published.stderr
    assert subscriber.ended() == 0
    rows = [json.loads(line) for line in subscriber.out.splitlines()]
    assert [row["class"] for row in rows] == ["express"] * 3
    assert [row["express_path"] for row in rows] == [True] * 3
    assert [row["budget_ms"] for row in rows] == [20_000, 10_000, 0.001]
    assert [row["late"] for row in rows] == [False, False, True]


def test_a_budget_is_for_express_events(brokers: Fleet) -> None:
    refused = chordal_here("pub", "t", "now", "--budget", "5ms")
    assert refused.returncode == 2
    assert "--class express" in refused.stderr


@pytest.mark.parametrize("policy", ["disconnect", "drop_oldest"])
def test_a_subscriber_that_is_stopped_holds_up_nobody(brokers: Fleet, policy: str) -> None:
    """Stopped with SIGSTOP: its connection stays, and it reads nothing."""
    broker = brokers.broker("--slow-clients", policy)
    stopped = brokers.subscriber("t", broker.url)
    stopped.signal(signal.SIGSTOP)
    try:
        quick = brokers.subscriber("t", broker.url, "--count", str(3 * COUNT))
        before = memory(broker)
        for _ in range(3):
            arguments = ("--count", str(COUNT), "--broker", broker.url)
            published = chordal_here("pub", "t", PAYLOAD, *arguments)
            assert published.returncode == 0, published.stderr
        assert quick.ended() == 0
        assert len(quick.out.splitlines()) == 3 * COUNT
        assert memory(broker) - before < MEMORY_BYTES
        counters = broker.status()["counters"]
        if policy == "disconnect":
            assert counters["clients_too_slow"] == 1
        else:
            assert counters["events_dropped_for_clients"] > 0
            assert "clients_too_slow" not in counters
    finally:
        stopped.signal(signal.SIGCONT)
    if policy == "drop_oldest":

        def is_told() -> bool:
            chordal_here("pub", "t", "one more", "--broker", broker.url)
            return "too slow for what comes" in stopped.err

        eventually(is_told)


@pytest.mark.soak
def test_the_benchmark_prints_ratios_beside_thresholds() -> None:
    command = [sys.executable, "-m", "benchmarks.speed.links", "throughput", "latency"]
    command += ["--sizes", "256", "--events", "20000", "--seconds", "1", "--rounds", "1"]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )
    assert done.stderr == ""
    assert done.returncode in (0, 1), "whether the bars are met depends on what else runs here"
    bars = [line for line in done.stdout.splitlines() if "threshold" in line]
    assert [bar[:2] for bar in bars] == ["B1", "B2", "B2"]
    assert all(bar.endswith((" met", "NOT MET")) for bar in bars)


@pytest.mark.soak
def test_the_table_prints_a_row_beside_its_bar_and_what_each_process_took() -> None:
    command = [sys.executable, "-m", "benchmarks.speed.links", "--only", "256-secure"]
    command += ["--seconds", "1", "--rounds", "1"]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )
    assert done.stderr == ""
    assert done.returncode in (0, 1), "whether the bars are met depends on what else runs here"
    (bar,) = [line for line in done.stdout.splitlines() if "of the relay" in line]
    assert bar.endswith((" met", "NOT MET"))
    assert done.stdout.count("CPU us an event") >= 2
