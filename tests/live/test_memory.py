"""A broker that may take so much address space and no more lives on, whatever strangers do."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
import trio

from benchmarks.campaigns.attacks import peer_hello
from benchmarks.campaigns.crowds import questions
from benchmarks.stage.processes import Broker, Fleet, Running
from benchmarks.stage.waiting import eventually
from overlay.address import parse_url
from overlay.wire.greetings import GREETINGS

MIB = 1024 * 1024
BUDGET_MIB = 48
QUESTIONS, LINKS = 3000, 60


def address_space(broker: Running) -> int:
    """Return the bytes that a process has taken of its address space."""
    status = Path("/proc", str(broker.process.pid), "status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmSize:")]
    return int(line.split()[1]) * 1024


def has_relieved(broker: Broker) -> bool:
    """Say whether a broker has let go of what it need not have."""
    counters: dict[str, int] = broker.status()["counters"]
    return counters.get("memory_relieved", 0) > 0


async def attack(broker: Broker) -> None:
    """Greet as many brokers that ask for tables without end, and read no answer."""
    address, rng = parse_url(broker.url), random.Random(1)
    streams = []
    for _ in range(LINKS):
        stream = await trio.open_tcp_stream(address.host, address.port)
        streams.append(stream)
        with trio.move_on_after(1):
            await stream.send_all(GREETINGS.encode(peer_hello(rng)) + questions(QUESTIONS))
    with trio.move_on_after(20):
        while not await trio.to_thread.run_sync(has_relieved, broker):
            pass  # it is told more meanwhile, and the question takes its time
    for stream in streams:
        await trio.aclose_forcefully(stream)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_a_broker_lives_within_its_budget(started_brokers: Fleet) -> None:
    idle = started_brokers.broker()
    assert idle.ready["ready"]
    limit = address_space(idle) + BUDGET_MIB * MIB
    idle.kill()
    broker = started_brokers.broker("--memory", f"{BUDGET_MIB}M", "--connection-rate", "0")
    assert broker.ready["ready"]
    subprocess.run(
        ["prlimit", f"--as={limit}", "--pid", str(broker.process.pid)], check=True, timeout=10
    )
    trio.run(attack, broker)
    status = eventually(broker.status)
    assert status["memory"]["budget"] == BUDGET_MIB * MIB
    counters = status["counters"]
    assert counters["memory_relieved"] > 0
    assert counters.get("resource_shortages", 0) == 0, "it has never come to that"
    assert counters.get("internal_errors", 0) == 0
    assert broker.process.poll() is None
