"""A campaign against the ports of live brokers: ``python -m benchmarks.campaigns.fuzz``.

A ring of three ``chordal serve`` processes carries two streams of numbered events, one each way,
through ``chordal pub`` and ``chordal sub``. Broker ``open`` limits no rate of connections and meets
every attack; ``guarded`` has the rate that brokers have by default; ``narrow`` may open 256 files
and no more. Afterwards every stream must be whole and in order, the ring whole, and each broker's
memory and file descriptors must be back where they were.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

import trio

from benchmarks.campaigns.attacks import ATTACKS, Target
from benchmarks.stage.processes import REPOSITORY, Broker, chordal
from benchmarks.stage.proxy import Proxy
from ges.operations.local_brokers import COMMAND
from overlay.address import parse_url
from overlay.rng import rng_for

RSS_MARGIN_MIB = 48.0  #: that memory may be above where it was, for what Python keeps
FILES_MARGIN = 4
QUIET_SECONDS = 30.0  #: for strangers to be dropped, and memory to come back
LOG_LINES = 200  #: of one broker in a campaign: floods are not logged line by line
NARROW_FILES = 256
CROWDS = ("idle", "idle clients")  #: attacks by number, which meet all three brokers
EVENTS_PER_SECOND = 100.0
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing measured, beside its threshold."""

    name: str
    measured: float
    threshold: float

    @property
    def is_met(self) -> bool:
        """Whether the figure is no larger than its threshold."""
        return self.measured <= self.threshold

    def __str__(self) -> str:
        verdict = "met" if self.is_met else "NOT MET"
        return f"{self.name:<52} {self.measured:>10.1f}   at most {self.threshold:>6g}   {verdict}"


@dataclass(slots=True)
class Campaign:
    """What a campaign has found."""

    connections: dict[str, int] = field(default_factory=dict)  #: made, by attack
    figures: list[Figure] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)  #: by name, summed over the brokers

    @property
    def failures(self) -> list[str]:
        """The figures that are not met, each as the line that is printed of it."""
        return [str(figure) for figure in self.figures if not figure.is_met]


class Stream:
    """Numbered events from ``chordal pub`` at one broker to ``chordal sub`` at another."""

    def __init__(self, folder: Path, name: str, source: str, sink: str) -> None:
        self.name = name
        self.published = 0
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        self._sink = sink
        self._source = source

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Publish for the length of the block; then wait up to 10 s for what has not come yet.

        Raises:
            TimeoutError: there is no subscription after 30 s.
            subprocess.TimeoutExpired: the publisher has not confirmed all 30 s after the block.
        """
        topic = f"stream/{self.name}"
        with self._out.open("w") as out, self._err.open("w") as err:
            sub = _start("sub", topic, "--broker", self._sink, out=out, err=err)
            pub = None
            try:
                await _until(lambda: "subscribed to" in self._err.read_text(), "subscription")
                pub = _start("pub", topic, "-", "--lines", "--broker", self._source, err=err)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._feed, pub)
                    yield
                    nursery.cancel_scope.cancel()
                assert pub.stdin is not None
                with suppress(BrokenPipeError):
                    pub.stdin.close()  # it confirms what it has sent, and ends
                await trio.to_thread.run_sync(pub.wait, 30)
                with suppress(TimeoutError):
                    await _until(lambda: len(self.arrived) >= self.published, "events", 10)
            finally:
                for process in (pub, sub):
                    if process is not None:
                        process.kill()
                        process.wait()

    async def _feed(self, pub: subprocess.Popen[bytes]) -> None:
        assert pub.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: its events will be missing
            while True:
                self.published += 1
                pub.stdin.write(b"%d\n" % (self.published - 1))
                pub.stdin.flush()
                await trio.sleep(1 / EVENTS_PER_SECOND)

    @property
    def arrived(self) -> list[str]:
        """Events that came, in order."""
        return [line.split()[1] for line in self._out.read_text().splitlines()]

    @property
    def wrong(self) -> int:
        """Return how many events are missing, doubled or out of place."""
        wanted = [str(number) for number in range(self.published)]
        arrived = self.arrived
        misplaced = sum(a != b for a, b in zip(wanted, arrived, strict=False))
        return misplaced + abs(len(wanted) - len(arrived))

    @property
    def told(self) -> str:
        """What both ends said on stderr."""
        return self._err.read_text()

    @property
    def gaps(self) -> int:
        """Return how often an end lost its broker."""
        return self.told.count("attached to") + self.told.count("error")


@dataclass(frozen=True, slots=True)
class Use:
    """What a process uses."""

    rss_mib: float
    files: int


def use_of(broker: Broker) -> Use:
    """Return what a broker that runs uses now: resident memory in MiB, and open descriptors."""
    process = Path("/proc", str(broker.process.pid))
    pages = int((process / "statm").read_text().split()[1])
    return Use(pages * resource.getpagesize() / MIB, len(os.listdir(process / "fd")))


async def run(
    folder: Path,
    seed: int,
    *,
    long: bool,
    tell: Callable[[str], None],
    names: Collection[str] = tuple(ATTACKS),
    minutes: float = 0.0,
    secure: bool = True,
) -> Campaign:
    """Attack a ring of three for a while, and judge it afterwards.

    All attacks once, and again with other bytes until ``minutes`` are over; ``secure``: the brokers
    have identities.
    """
    campaign = Campaign()
    _allow_files(16_000 if long else 2_000)
    async with _ring(folder, secure=secure) as (brokers, proxy):
        opened, guarded, narrow = brokers
        streams = [
            Stream(folder, "out", opened.url, guarded.url),
            Stream(folder, "in", narrow.url, opened.url),
        ]
        async with streams[0].running(), streams[1].running():
            await _warm_up(opened, proxy)
            before = {name: use_of(broker) for name, broker in _named(brokers)}
            recorded = bytes(proxy.records[0].called)
            plan = [(name, opened) for name in names]
            crowds = [name for name in CROWDS if name in names]
            plan += [(name, broker) for name in crowds for broker in (guarded, narrow)]
            until = trio.current_time() + 60 * minutes
            again = True
            while again:
                async with trio.open_nursery() as nursery:
                    for name, broker in plan:
                        attack = partial(_attack, campaign, name, broker, recorded, seed, tell)
                        if long:
                            await attack(long=True)
                        else:  # all together, to be done in seconds
                            nursery.start_soon(partial(attack, long=False))
                again = trio.current_time() < until
                seed += 1
            after = await _settled(brokers, before)
        for name, broker in _named(brokers):
            _judge(campaign, name, broker, before[name], after[name])
        for stream in streams:
            what = f"stream {stream.name}: of {stream.published} events"
            campaign.figures += [
                Figure(f"{what}, missing, doubled or misplaced", stream.wrong, 0),
                Figure(f"stream {stream.name}: ends that lost their broker", stream.gaps, 0),
            ]
            if stream.gaps:
                tell(stream.told)
        check = chordal("ring", "--check", "--expect", "3", "--wait", "30", "--broker", opened.url)
        campaign.figures.append(Figure("ring --check, exit code", check.returncode, 0))
    for broker in brokers:
        for line in broker.err.splitlines():
            if "BUG" in line:
                tell(line)
    return campaign


async def _attack(
    campaign: Campaign,
    name: str,
    broker: Broker,
    recorded: bytes,
    seed: int,
    tell: Callable[[str], None],
    *,
    long: bool,
) -> None:
    attack, few, many = ATTACKS[name]
    port = parse_url(broker.url).port
    start = trio.current_time()
    count = many if long else few
    made = await attack(Target(port, recorded), rng_for(seed, "fuzz", name), count)
    campaign.connections[name] = campaign.connections.get(name, 0) + made
    use = use_of(broker)
    tell(
        f"{name:<12} {made:>6} of {count:>5} connections in {trio.current_time() - start:5.1f} s; "
        f"then {use.rss_mib:.0f} MiB, {use.files} files"
    )


async def _warm_up(broker: Broker, proxy: Proxy) -> None:
    """Let the broker load what it loads once, and the streams flow."""
    target = Target(parse_url(broker.url).port, bytes(proxy.records[0].called), hold=0.2)
    for name, (attack, _, _) in ATTACKS.items():
        await attack(target, rng_for(0, "warm-up", name), 2)


async def _settled(brokers: list[Broker], before: dict[str, Use]) -> dict[str, Use]:
    """Return what brokers use once it is what it was, or time is up."""
    after: dict[str, Use] = {}
    with trio.move_on_after(QUIET_SECONDS):
        while True:
            after = {name: use_of(broker) for name, broker in _named(brokers)}
            if all(
                after[name].files <= before[name].files + FILES_MARGIN
                and after[name].rss_mib <= before[name].rss_mib + RSS_MARGIN_MIB
                for name in after
            ):
                break
            await trio.sleep(0.2)
    return after


def _judge(campaign: Campaign, name: str, broker: Broker, before: Use, after: Use) -> None:
    counters = broker.status()["counters"]
    for kind, count in counters.items():
        campaign.counters[kind] = campaign.counters.get(kind, 0) + count
    grown, files = after.rss_mib - before.rss_mib, after.files - before.files
    campaign.figures += [
        Figure(f"{name}: MiB of memory above {before.rss_mib:.0f} before", grown, RSS_MARGIN_MIB),
        Figure(f"{name}: open files above {before.files} before", files, FILES_MARGIN),
        Figure(f"{name}: internal errors", counters.get("internal_errors", 0), 0),
        Figure(f"{name}: tracebacks", broker.err.count("Traceback"), 0),
        Figure(f"{name}: lines logged", len(broker.err.splitlines()), LOG_LINES),
    ]


@asynccontextmanager
async def _ring(folder: Path, *, secure: bool) -> AsyncIterator[tuple[list[Broker], Proxy]]:
    """Run the three brokers; the second joins the first by way of a proxy that records it."""
    authority = folder / "authority"
    _ok(chordal("identity", "init", str(authority)))
    identities = [folder / f"identity-{number}" for number in range(3)]
    for identity in identities:
        _ok(chordal("identity", "issue", str(authority), str(identity), "--broker"))
    brokers: list[Broker] = []
    proxy: Proxy | None = None

    def start(name: str, number: int, *arguments: str, files: int | None = None) -> Broker:
        identity = ("--identity", str(identities[number])) if secure else ()
        broker = Broker(folder, name, (*identity, *arguments), files=files)
        brokers.append(broker)
        assert broker.ready["ready"]
        return broker

    try:
        first = start("open", 0, "--connection-rate", "0")
        proxy = Proxy(parse_url(first.url).port)
        start("guarded", 1, "--join", f"chordal://127.0.0.1:{proxy.port}")
        start("narrow", 2, "--connection-rate", "0", "--join", first.url, files=NARROW_FILES)
        _ok(chordal("ring", "--check", "--expect", "3", "--wait", "30", "--broker", first.url))
        yield brokers, proxy
    finally:
        for broker in brokers:
            broker.kill()
        if proxy is not None:
            proxy.close()


def _named(brokers: list[Broker]) -> list[tuple[str, Broker]]:
    return list(zip(("open", "guarded", "narrow"), brokers, strict=True))


def _ok(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr


def _start(*arguments: str, out: IO[str] | None = None, err: IO[str]) -> subprocess.Popen[bytes]:
    """Start a command; one without ``out`` is fed through its standard input."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE if out is None else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if out is None else out,
        stderr=err,
        cwd=REPOSITORY,
    )


async def _until(check: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    deadline = trio.current_time() + seconds
    while not check():
        if trio.current_time() > deadline:
            raise TimeoutError(f"no {what} in {seconds:g} s")
        await trio.sleep(0.05)


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> int:
    """Run a campaign and print what was found; exit code 1 if anything is not as it must be."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.campaigns.fuzz", description=__doc__
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--attack", choices=ATTACKS, action="append", help="this one alone")
    parser.add_argument("--short", action="store_true", help="as the tests do, in seconds")
    parser.add_argument("--minutes", type=float, default=0.0, help="again until these are over")
    parser.add_argument("--plain", action="store_true", help="brokers without identities")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chordal-fuzz-") as folder:
        campaign = trio.run(_main, Path(folder), options)
    print(f"\n{sum(campaign.connections.values())} connections, seed {options.seed}")  # noqa: T201
    for figure in campaign.figures:
        print(figure)  # noqa: T201
    print("\nrefusals counted by the brokers:")  # noqa: T201
    for kind, count in sorted(campaign.counters.items()):
        if not kind.startswith(("events_", "control_")):
            print(f"  {kind:<40} {count:>8}")  # noqa: T201
    return 1 if campaign.failures else 0


async def _main(folder: Path, options: argparse.Namespace) -> Campaign:
    def tell(line: str) -> None:
        print(line, flush=True)  # noqa: T201

    return await run(
        folder,
        options.seed,
        long=not options.short,
        tell=tell,
        names=options.attack or [*ATTACKS],
        minutes=options.minutes,
        secure=not options.plain,
    )


if __name__ == "__main__":
    sys.exit(main())
