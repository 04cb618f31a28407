"""``chordal top`` at real brokers: once, as JSON, and on a terminal until it is interrupted."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading

import pytest

from benchmarks.stage.in_process import LIMIT_SECONDS, chordal_here
from benchmarks.stage.processes import REPOSITORY, Fleet
from benchmarks.stage.waiting import eventually
from ges.operations.local_brokers import COMMAND

pytestmark = pytest.mark.live


def test_rates_of_brokers_and_links_are_shown_once(brokers: Fleet) -> None:
    here, there = brokers.ring_of(2)
    brokers.subscriber("bench", there.url, "--json")
    publisher = brokers.run(
        "bench", "pub", "--rate", "500", "--count", "1000000", "--broker", here.url
    )
    eventually(lambda: there.status()["counters"].get("events_delivered"))
    at = ("--interval", "500ms", "--broker", there.url)
    found = json.loads(chordal_here("top", "--json", *at).stdout)
    rows = {row["uid"]: row for row in found["brokers"]}
    assert 100 < rows[here.uid]["published_per_s"] < 900
    assert 100 < rows[there.uid]["delivered_per_s"] < 900
    assert rows[there.uid]["published_per_s"] == 0
    assert (rows[here.uid]["clients"], rows[there.uid]["clients"]) == (1, 1), "top is not one"
    assert {tuple(link["ends"]) for link in found["links"]} == {
        tuple(sorted((here.uid, there.uid)))
    }
    told = chordal_here("top", "--once", *at).stdout
    assert "2 brokers, " in told
    assert here.uid[:8] in told
    assert "link between" in told
    publisher.kill()


def test_on_a_terminal_it_goes_on_until_it_is_interrupted(brokers: Fleet) -> None:
    first, second = brokers.ring_of(2)
    ours, theirs = pty.openpty()
    command = [*COMMAND, "top", "--interval", "200ms", "--broker", first.url]
    shown = b""
    with (
        open(ours, "rb", buffering=0) as screen,
        subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, cwd=REPOSITORY) as process,
    ):
        os.close(theirs)
        guard = threading.Timer(LIMIT_SECONDS, process.kill)  # then there is nothing more to read
        guard.start()
        while second.uid[:8].encode() not in shown:
            shown += screen.read(4096)
        first.process.kill()
        shown = b""
        while b"1 broker, " not in shown:  # it goes on with the other one
            shown += screen.read(4096)
        process.send_signal(signal.SIGINT)
        while b"\x1b[?1049l" not in shown:  # the screen is given back
            shown += screen.read(4096)
        assert process.wait(LIMIT_SECONDS) == 0
        guard.cancel()
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_no_broker_is_an_error_at_once() -> None:
    done = chordal_here("top", "--broker", "chordal://127.0.0.1:1", "--timeout", "0.1")
    assert done.returncode == 1
    assert "connection refused" in done.stderr
