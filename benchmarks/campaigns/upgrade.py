"""A ring whose brokers are replaced one at a time by those of another version, under events.

    python -m benchmarks.campaigns.upgrade [--old DIR] [--new DIR] [--brokers N] [--rate N]

``DIR`` is a checkout of a version; the one that this is run in by default. The brokers are started
with the old version, and clients of the old version publish and subscribe. Then each broker in turn
is drained, and started again with the new version, the same port and the same data directory. In
the end a client of the new version publishes and subscribes, too. Counted are events that do not
come, come twice, or come out of order; exit code 1 if there are any, or if the ring is not whole.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from benchmarks.arguments import at_least
from benchmarks.stage.processes import HERE, Broker, Release, Running, chordal, whole
from benchmarks.stage.waiting import eventually
from overlay.net.free_ports import free_ports

LAST_SECONDS = 20.0  #: the last event may take so long to come


@dataclass
class Outcome:
    """What was seen of an upgrade."""

    published: int = 0
    missing: int = 0
    disorder: int = 0  #: events that came twice, or after a later one
    replaced_s: list[float] = field(default_factory=list)  #: a broker each: until the ring is whole
    moved: int = 0  #: how often the clients went to another broker

    @property
    def is_right(self) -> bool:
        """Each event has come once, and in order."""
        return self.published > 0 and not self.missing and not self.disorder


class Feed:
    """``chordal pub --lines``: it publishes numbers at a rate, until it is told to stop."""

    def __init__(self, folder: Path, urls: str, rate: float, release: Release) -> None:
        self.count = 0
        self._is_over = threading.Event()
        arguments = ("pub", "upgrade", "-", "--lines", "--broker", urls)
        self.command = Running(folder, "pub", arguments, None, release, subprocess.PIPE)
        self._thread = threading.Thread(target=self._feed, args=(1 / rate,), daemon=True)
        self._thread.start()

    def _feed(self, pause: float) -> None:
        stream = self.command.process.stdin
        assert stream is not None
        with stream:
            while not self._is_over.wait(pause):
                self.count += 1
                stream.write(b"%d\n" % self.count)
                stream.flush()

    def finish(self) -> int:
        """Stop, wait until all is confirmed, and return how many events that are."""
        self._is_over.set()
        self._thread.join()
        assert self.command.ended() == 0, self.command.err
        return self.count


@contextmanager
def subscribed(folder: Path, urls: str, release: Release) -> Iterator[Running]:
    """Run ``chordal sub``, from when it misses nothing."""
    arguments = ("sub", "upgrade", "--json", "--broker", urls)
    command = Running(folder, "sub", arguments, None, release)
    try:
        eventually(lambda: "is active" in command.err, what=f"active: {command.err}")
        yield command
    finally:
        command.kill()


def upgrade(
    folder: Path, old: Release, new: Release, brokers: int = 3, rate: float = 200.0
) -> Outcome:
    """Replace all brokers of a ring, one at a time, while events flow.

    Raises:
        AssertionError: a broker does not drain, or the ring does not become whole.
    """
    outcome = Outcome()
    ports = free_ports(brokers)
    urls = [f"chordal://127.0.0.1:{port}" for port in ports]
    listed = ",".join(urls)

    def started(number: int, release: Release) -> Broker:
        arguments = ("--listen", f"127.0.0.1:{ports[number]}", "--join", listed)
        return Broker(folder, f"broker-{number}", arguments, None, release)

    running = [started(number, old) for number in range(brokers)]
    try:
        whole(running[0].url, brokers)
        with subscribed(folder, listed, old) as subscriber:
            feed = Feed(folder, listed, rate, old)
            try:
                for number in range(brokers):
                    eventually(lambda: feed.count and len(_numbers(subscriber)) > feed.count // 2)
                    begun = time.monotonic()
                    _drain(running[number], urls[number - 1])
                    running[number] = started(number, new)
                    whole(running[number].url, brokers)
                    outcome.replaced_s.append(time.monotonic() - begun)
            finally:
                outcome.published = feed.finish()
                feed.command.kill()
            _wait_for_all(subscriber, outcome.published)
            numbers = _numbers(subscriber)
            outcome.moved = subscriber.err.count("attached to")
        outcome.missing = outcome.published - len(set(numbers))
        outcome.disorder = sum(b <= a for a, b in pairwise(numbers))
        _new_clients(folder / "after", listed, new)
    finally:
        for broker in running:
            broker.kill()
    return outcome


def _wait_for_all(subscriber: Running, count: int) -> None:
    with suppress(AssertionError):  # what does not come is counted
        eventually(lambda: len(_numbers(subscriber)) >= count, LAST_SECONDS)


def _numbers(subscriber: Running) -> list[int]:
    """Return the numbers that have come; a line that is half written counts as none."""
    lines = subscriber.out.splitlines(keepends=True)
    return [int(json.loads(line)["payload"]) for line in lines if line.endswith("\n")]


def _drain(broker: Broker, by: str) -> None:
    """Drain a broker as an operator does: by another one."""
    done = chordal("drain", broker.url, "--broker", by)
    assert done.returncode == 0, done.stderr
    assert broker.ended() == 0, broker.err
    assert "Traceback" not in broker.err, broker.err


def _new_clients(folder: Path, urls: str, release: Release) -> None:
    """Publish and subscribe with the new version, when all brokers have it."""
    folder.mkdir()
    with subscribed(folder, urls, release) as subscriber:
        feed = Feed(folder, urls, 100.0, release)
        eventually(lambda: len(_numbers(subscriber)) >= 10)
        count = feed.finish()
        eventually(lambda: _numbers(subscriber) == list(range(1, count + 1)))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.campaigns.upgrade")
    parser.add_argument("--old", type=Path, metavar="DIR")
    parser.add_argument("--new", type=Path, metavar="DIR")
    parser.add_argument("--brokers", type=at_least(2), default=5, metavar="N")
    parser.add_argument("--rate", type=at_least(1), default=200, metavar="N")
    chosen = parser.parse_args()
    old, new = (HERE if path is None else Release.at(path) for path in (chosen.old, chosen.new))
    with tempfile.TemporaryDirectory() as folder:
        found = upgrade(Path(folder), old, new, chosen.brokers, chosen.rate)
    slowest = max(found.replaced_s)
    sys.stdout.write(
        f"{chosen.brokers} brokers replaced, each in {slowest:.1f} s at most; "
        f"{found.published} events published, {found.missing} missing, {found.disorder} twice or "
        f"out of order; the subscriber moved {found.moved} times\n"
    )
    return 0 if found.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
