"""Commands at work: what they print, what they read, and how they end when they are told to."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import structlog

from benchmarks.stage.in_process import LIMIT_SECONDS, chordal_here
from benchmarks.stage.processes import REPOSITORY, Fleet, Running, chordal
from benchmarks.stage.proxy import free_port
from benchmarks.stage.waiting import eventually
from ges.operations.local_brokers import COMMAND

pytestmark = pytest.mark.live


@contextmanager
def piped(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command whose input and output the test holds."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, cwd=REPOSITORY
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _has(running: Running, text: str) -> bool:
    return text in running.out


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Wait for the end of a command; returns its exit code and what it said on stderr."""
    _, err = process.communicate(timeout=LIMIT_SECONDS)
    return process.returncode, err.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ["identity", "--help"],
        ["pub", "a/#", "grüße", "--json"],
        ["serve", "--listen", "127.0.0.1:0", "--access", "/dev/null/rules"],
    ],
)
def test_a_command_in_this_process_does_what_a_process_does(arguments: list[str]) -> None:
    before = structlog.get_config(), resource.getrlimit(resource.RLIMIT_NOFILE), sys.stdin
    here, there = chordal_here(*arguments), chordal(*arguments)
    assert (here.returncode, here.stdout, here.stderr) == (
        there.returncode,
        there.stdout,
        there.stderr,
    )
    assert here.stdout + here.stderr != ""
    after = structlog.get_config(), resource.getrlimit(resource.RLIMIT_NOFILE), sys.stdin
    assert after == before


def test_serve_prints_one_line_for_machines(brokers: Fleet) -> None:
    first, second = brokers.ring_of(2)
    for broker in (first, second):
        (line,) = broker.out.splitlines()
        assert json.loads(line) == broker.ready
        assert set(broker.ready) == {"ready", "url", "secure_url", "ring_id", "uid", "name"}
        assert broker.ready["secure_url"] is None
        assert all(json.loads(told)["level"] for told in broker.err.splitlines())


def test_a_port_alone_is_listened_on_over_loopback(brokers: Fleet) -> None:
    port = free_port()
    broker = brokers.broker("--listen", str(port))
    assert broker.ready["url"] == f"chordal://127.0.0.1:{port}"


def test_ring_and_status_speak_json(brokers: Fleet) -> None:
    first, second = brokers.ring_of(2)
    walked = json.loads(chordal("ring", "--json", "--broker", first.url).stdout)
    assert (walked["size"], walked["whole"], walked["findings"]) == (2, True, [])
    assert [row["uid"] for row in walked["brokers"]] == [first.uid, second.uid]
    assert walked["connectivity"] == {}, "only the check measures it"
    status = second.status()
    assert (status["uid"], status["url"], status["overlay"]) == (second.uid, second.url, "chordal")
    assert [member["uid"] for member in status["left"]] == [first.uid]
    told = chordal("status", "--broker", second.url)
    assert second.uid in told.stdout


def test_the_check_tells_how_many_losses_the_ring_survives(brokers: Fleet) -> None:
    ring = brokers.ring_of(6)
    checked = chordal("ring", "--check", "--json", "--broker", ring[0].url)
    found = json.loads(checked.stdout)["connectivity"]
    assert set(found) == {"links", "ring_links"}
    near = found["ring_links"]
    assert (near["links"], near["k"], near["survives"], near["complete"]) == (12, 4, 3, False)
    assert len(near["weakest_cut"]) == 4
    assert {row["uid"] for row in near["weakest_cut"]} < {broker.uid for broker in ring}
    assert all(isinstance(row["ring_id"], int) for row in near["weakest_cut"])
    assert found["links"]["k"] >= 4
    told = chordal_here("ring", "--check", "--broker", ring[0].url).stdout
    assert "ring links: 12 between 6 brokers; they survive the loss of any 3; " in told
    assert "the ring of 6 is whole" in told


def test_events_are_printed_for_people_and_for_machines(brokers: Fleet) -> None:
    broker = brokers.broker()
    people = brokers.subscriber("a/+", broker.url, "--count", "2")
    machines = brokers.subscriber("a/+", broker.url, "--count", "2", "--json")
    where = ("--broker", broker.url)
    done = chordal("pub", "a/b", "grüße", "--attr", "unit=°C", "--attr", "x=y=z", *where)
    assert done.stdout == f"published 1 event to a/b at {broker.url}\n"
    counted = chordal("pub", "a/c", "-", "--json", *where, given="from\ninput")
    assert json.loads(counted.stdout) == {"published": 1, "topic": "a/c", "broker": broker.url}
    assert people.ended() == machines.ended() == 0
    assert people.out == "a/b grüße\na/c from\ninput\n"
    first, second = map(json.loads, machines.out.splitlines())
    assert (first["topic"], first["payload"], first["class"]) == ("a/b", "grüße", "normal")
    assert first["attributes"] == {"unit": "°C", "x": "y=z"}
    assert (first["sequence"], first["hops"], second["payload"]) == (1, 0, "from\ninput")


def test_lines_are_published_as_they_come(brokers: Fleet) -> None:
    broker = brokers.broker()
    subscriber = brokers.subscriber("log", broker.url)
    with piped("pub", "log", "-", "--lines", "--broker", broker.url) as publisher:
        assert publisher.stdin is not None
        for line in ("first", "second"):
            publisher.stdin.write(f"{line}\r\n".encode())
            publisher.stdin.flush()
            eventually(partial(_has, subscriber, f"log {line}\n"))
        publisher.stdin.write(b"half a line")
        assert ended(publisher) == (0, "")
    eventually(lambda: subscriber.out.endswith("log half a line\n"))


def test_too_few_events_in_time_are_an_error(brokers: Fleet) -> None:
    broker = brokers.broker()
    done = chordal("sub", "a", "--count", "3", "--wait", "2", "--broker", broker.url)
    assert done.returncode == 1
    assert "0 of 3 events came within 2 s" in done.stderr
    assert chordal_here("sub", "a", "--wait", "0.2", "--broker", broker.url).returncode == 0


def test_an_interrupted_publisher_shows_no_traceback(brokers: Fleet) -> None:
    broker = brokers.broker()
    subscriber = brokers.subscriber("log", broker.url)
    with piped("pub", "log", "-", "--lines", "--broker", broker.url) as publisher:
        assert publisher.stdin is not None
        publisher.stdin.write(b"one\n")
        publisher.stdin.flush()
        eventually(lambda: "log one" in subscriber.out)
        publisher.send_signal(signal.SIGINT)
        code = publisher.wait(LIMIT_SECONDS)
        _, err = publisher.communicate()
    assert code == 130
    assert err.strip() == b""


def test_a_subscriber_waits_for_a_broker_that_is_not_there_yet(brokers: Fleet) -> None:
    port = free_port()
    url = f"chordal://127.0.0.1:{port}"
    waiting = (
        f"chordal: waiting for a broker at {url} (connection refused); trying until one answers\n"
    )
    with piped("sub", "a", "--broker", url, "--count", "1") as subscriber:
        assert subscriber.stderr is not None
        assert subscriber.stderr.readline().decode() == waiting
        brokers.broker("--listen", f"127.0.0.1:{port}")
        assert b"subscribed" in subscriber.stderr.readline()
        assert chordal("pub", "a", "b", "--broker", url).returncode == 0
        assert subscriber.wait(LIMIT_SECONDS) == 0


@pytest.mark.parametrize(
    ("flags", "told"),
    [([], rb"a \x1b[31mred\n!" + b"\r\n"), (["--raw"], b"a \x1b[31mred\r\n!\r\n")],
)
def test_on_a_terminal_events_are_escaped_unless_told_otherwise(
    brokers: Fleet, flags: list[str], told: bytes
) -> None:
    url = brokers.broker().url
    ours, theirs = pty.openpty()
    command = [*COMMAND, "sub", "a", "--count", "1", "--broker", url, *flags]
    with (
        open(ours, "rb", buffering=0) as shown,
        subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, cwd=REPOSITORY) as process,
    ):
        os.close(theirs)
        assert process.stderr is not None
        assert b"subscribed" in process.stderr.readline()
        assert chordal("pub", "a", "\x1b[31mred\n!", "--broker", url).returncode == 0
        assert process.wait(LIMIT_SECONDS) == 0
        assert shown.read(1000) == told


def test_an_interrupt_ends_the_wait_for_a_broker() -> None:
    with piped("sub", "a", "--broker", "chordal://127.0.0.1:1") as subscriber:
        assert subscriber.stderr is not None
        assert b"waiting" in subscriber.stderr.readline()
        subscriber.send_signal(signal.SIGINT)
        assert subscriber.wait(1) == 130
        assert subscriber.stderr.read().strip() == b""


def test_a_subscriber_whose_reader_has_gone_ends_quietly(brokers: Fleet) -> None:
    broker = brokers.broker()
    with piped("sub", "a", "--broker", broker.url) as subscriber:
        assert subscriber.stderr is not None
        assert subscriber.stdout is not None
        assert b"subscribed" in subscriber.stderr.readline()
        assert b"a is active" in subscriber.stderr.readline()
        subscriber.stdout.close()
        assert chordal("pub", "a", "b", "--broker", broker.url).returncode == 0
        assert subscriber.wait(LIMIT_SECONDS) == 0
        assert subscriber.stderr.read() == b""


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.soak), signal.SIGTERM]
)
def test_a_broker_that_still_looks_for_its_seed_can_be_told_to_stop(
    brokers: Fleet, number: signal.Signals
) -> None:
    broker = brokers.broker("--join", f"chordal://127.0.0.1:{free_port()}")
    eventually(lambda: "not joined yet" in broker.err)
    broker.signal(number)
    assert broker.ended() == 0
    assert broker.out == ""


def test_a_client_of_another_overlay_is_told_so(brokers: Fleet) -> None:
    broker = brokers.broker("--overlay", "red")
    refused = chordal_here("status", "--broker", broker.url, "--overlay", "blue")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"chordal: error: {broker.url}: ")
    assert "'red', not 'blue'" in refused.stderr


@pytest.mark.parametrize("command", [["status"], ["serve", "--listen", "127.0.0.1:0"]])
@pytest.mark.parametrize("name", ["", "x" * 65])
def test_a_name_that_no_overlay_has(command: list[str], name: str) -> None:
    refused = chordal_here(*command, "--overlay", name)
    assert refused.returncode == 2
    assert "1 to 64 characters" in refused.stderr


def test_an_attribute_is_given_once() -> None:
    refused = chordal_here("pub", "t", "x", "--attr", "k=1", "--attr", "k=2")
    assert refused.returncode == 2
    assert "'k' is given twice" in refused.stderr


def test_what_was_taken_is_delivered_before_the_broker_stops(brokers: Fleet) -> None:
    """Confirmed to the publisher, queued for the subscriber: a good-bye is no excuse."""
    broker = brokers.broker()
    count = 20_000
    subscriber = brokers.subscriber("a", broker.url, "--count", str(count), "--timeout", "1")
    done = chordal("pub", "a", "x" * 100, "--count", str(count), "--broker", broker.url)
    assert done.returncode == 0
    broker.signal(signal.SIGTERM)
    assert broker.ended() == 0
    assert subscriber.ended() == 0
    assert len(subscriber.out.splitlines()) == count


def test_output_that_cannot_be_written(brokers: Fleet) -> None:
    (broker,) = brokers.ring_of(1)
    for command in ("status", "ring", "metrics"):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [*COMMAND, command, "--broker", broker.url],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                cwd=REPOSITORY,
                check=False,
            )
        why = "chordal: error: cannot write the output: No space left on device [system]\n"
        assert (command, done.returncode, done.stderr) == (command, 1, why)


def test_a_command_without_any_output(brokers: Fleet) -> None:
    (broker,) = brokers.ring_of(1)
    command = [*COMMAND, "status", "--broker", broker.url]
    shell = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command]
    assert subprocess.run(shell, cwd=REPOSITORY, check=False).returncode == 0


def test_what_is_too_long_is_not_read_to_its_end(brokers: Fleet) -> None:
    (broker,) = brokers.ring_of(1)
    cases: tuple[tuple[list[str], str], ...] = (([], "1048577 bytes"), (["--lines"], "a line of"))
    for options, why in cases:
        with Path("/dev/zero").open() as endless:
            done = subprocess.run(
                [*COMMAND, "pub", "a", "-", *options, "--broker", broker.url],
                stdin=endless,
                capture_output=True,
                text=True,
                cwd=REPOSITORY,
                check=False,
                timeout=LIMIT_SECONDS,
            )
        assert done.returncode in (1, 2)
        assert why in done.stderr
        assert "Traceback" not in done.stderr
