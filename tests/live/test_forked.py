"""Commands that are forked do what commands do that Python has started."""

from __future__ import annotations

import signal
import subprocess

import pytest

from benchmarks.stage.forked import CAN_FORK
from benchmarks.stage.processes import Fleet, Running
from benchmarks.stage.waiting import eventually

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not CAN_FORK, reason="needs a system that tells of a process by a file"),
]


def ran(fleet: Fleet, *arguments: str) -> tuple[int, str, str]:
    running = fleet.run(*arguments)
    return running.ended(), running.out, running.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--version",), 0),
        (("pub", "a/#", "grüße"), 2),
        (("serve", "--listen", "127.0.0.1:0", "--access", "/dev/null/rules"), 2),
    ],
)
def test_both_print_the_same_and_end_alike(
    brokers: Fleet, started_brokers: Fleet, arguments: tuple[str, ...], code: int
) -> None:
    forked, started = ran(brokers, *arguments), ran(started_brokers, *arguments)
    assert forked == started
    assert forked[0] == code


def test_variables_that_a_test_sets_are_there(
    brokers: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ran(brokers, "pub", "a", "x", "--timeout", "0.1")[0] == 1
    monkeypatch.setenv("CHORDAL_URL", "no url")
    code, _, err = ran(brokers, "pub", "a", "x", "--timeout", "0.1")
    assert code == 2
    assert "no url" in err


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 0)]
)
def test_signals_reach_them(brokers: Fleet, number: signal.Signals, code: int) -> None:
    broker: Running = brokers.broker()
    assert broker.process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        broker.process.wait(0)
    eventually(lambda: broker.out)
    broker.signal(number)
    assert broker.ended() == broker.process.poll() == code
