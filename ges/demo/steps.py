"""The steps of the demo, one after the other: each does one thing and returns what it measured."""

from __future__ import annotations

from pathlib import Path

import msgspec
import trio

from ges.client import connect
from ges.demo.clusters import form_clusters
from ges.demo.events import ATTACH_SECONDS, exchange, secure_paths
from ges.demo.findings import (
    Analysed,
    Churned,
    Exchanged,
    Findings,
    Formed,
    Issued,
    Left,
    Refused,
    Repaired,
    Swept,
)
from ges.demo.processes import DemoFailed, Fleet, Stage, open_fleet
from ges.demo.progress import Telling
from ges.demo.wanted import send_where_wanted
from ges.operations import Walk, walk_ring
from overlay.address import Address
from overlay.ids import NANOS_PER_SECOND, LinkClass
from overlay.net.free_ports import LOOPBACK, free_ports
from overlay.trace_schema import Incident, Source, Verdict

BROKERS = 8
SPARK_SECONDS = 900.0  #: for a step on a machine that has other things to do, too
RING_PATIENCE_SECONDS = 30.0  #: for the ring to be whole, and its links at rest
TRACE_PATIENCE_SECONDS = 5.0  #: for the neighbours of the killed broker to write what they saw
POLL_SECONDS = 0.01


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything."""

    events: int  #: a broker and step
    nodes: tuple[int, ...]  #: sizes of the simulated rings
    seeds: int  #: runs of each size
    churn_nodes: int  #: size of the simulated ring under churn
    churn_s: float  #: seconds of virtual time that churn goes on
    session_s: float  #: that a broker stays, in the mean


FULL = Scale(
    events=1000, nodes=(64, 128, 256, 512), seeds=1, churn_nodes=16, churn_s=60.0, session_s=120.0
)
QUICK = Scale(events=250, nodes=(16, 32, 64), seeds=1, churn_nodes=6, churn_s=20.0, session_s=30.0)


async def demonstrate(stage: Stage, scale: Scale, out: Path, step: Telling) -> Findings:
    """Do the main job end to end; the data set goes to ``out/data``, the report beside it.

    Raises:
        ChordalError: Something did not go as it should; everything has been stopped.
    """
    identities = stage.folder / "identities"
    client = identities / "client"
    issued = await step("identities", issue(stage, identities))
    async with open_fleet(stage) as fleet:
        formed = await step("ring", form(stage, fleet, identities, out / "data"))
        normal = await step("normal events", exchange(_urls(fleet), "demo/normal", scale.events))
        wanted = await step("wanted events", send_where_wanted(_urls(fleet), scale.events))
        secure = await step("secure events", exchange_secure(fleet, scale.events, client))
        refused = await step("a plain hop", refuse(stage, fleet))
        repaired = await step("kill -9", kill_one(fleet, out / "data"))
        after = await step("events since", exchange(_urls(fleet), "demo/after", scale.events))
        left = await step("shutdown", dismiss(fleet))
    clustered = await step("clusters", form_clusters(stage, scale.events))
    churned = await step("churn", churn(stage, scale, out / "churn"))
    swept = await step("sweep", sweep(stage, scale, out / "data"), SPARK_SECONDS)
    analysed = await step("analysis", analyse(stage, out / "data", out / "report"), SPARK_SECONDS)
    return Findings(
        identities=issued,
        ring=formed,
        normal=normal,
        wanted=wanted,
        secure=secure,
        refusal=refused,
        repair=repaired,
        after=after,
        shutdown=left,
        clusters=clustered,
        churn=churned,
        sweep=swept,
        analysis=analysed,
    )


async def issue(stage: Stage, folder: Path) -> Issued:
    """Create the overlay's authority, and an identity for each broker and for a client."""
    authority = folder / "authority"
    await stage.run("identity", "init", authority)
    async with trio.open_nursery() as nursery:
        for number in range(BROKERS):
            own = folder / f"broker-{number}"
            nursery.start_soon(stage.run, "identity", "issue", authority, own, "--broker")
        nursery.start_soon(stage.run, "identity", "issue", authority, folder / "client", "--client")
    return Issued(brokers=BROKERS, clients=1)


async def form(stage: Stage, fleet: Fleet, identities: Path, trace: Path) -> Formed:
    """Start the brokers at once, all with one list: they form the ring by themselves."""
    ports = free_ports(BROKERS)
    everybody = ",".join(Address(LOOPBACK, port).url for port in ports)

    def settings(number: int) -> tuple[str | Path, ...]:
        data, own = stage.folder / f"broker-{number}", identities / f"broker-{number}"
        return ("--join", everybody, "--data", data, "--identity", own, "--trace", trace)

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number, port in enumerate(ports):
            nursery.start_soon(fleet.start, port, *settings(number))
    first = fleet.brokers[0]
    await stage.run(
        *("ring", "--check", "--expect", str(BROKERS), "--wait", str(RING_PATIENCE_SECONDS)),
        *("--broker", first.url),
    )
    whole_s = trio.current_time() - start
    await _until_whole(first.url, BROKERS, at_rest=True)
    return Formed(brokers=BROKERS, whole_s=whole_s, at_rest_s=trio.current_time() - start)


async def exchange_secure(fleet: Fleet, events: int, identity: Path) -> Exchanged:
    """Exchange secure events, as soon as all brokers take them."""
    urls = tuple(url for broker in fleet.brokers if (url := broker.secure_url) is not None)
    await secure_paths(urls, identity)
    return await exchange(urls, "demo/secure", events, identity=identity)


async def refuse(stage: Stage, fleet: Fleet) -> Refused:
    """Publish a secure event over a hop that is not."""
    url = fleet.brokers[0].url
    return Refused(
        reason=await stage.fail("pub", "demo/secret", "--class", "secure", "--broker", url)
    )


async def kill_one(fleet: Fleet, trace: Path) -> Repaired:
    """Kill a broker, and time the repair from both sides."""
    victim, *survivors = fleet.brokers
    async with connect(victim.url, timeout=ATTACH_SECONDS, reattach=False) as client:
        status = await client.status()
    await fleet.kill(victim)
    start = trio.current_time()
    await _until_whole(survivors[0].url, len(survivors))
    seen_whole_s = trio.current_time() - start
    neighbours = {member.uid for member in (*status.left, *status.right)}
    rows = await _incidents(trace, victim.uid, neighbours)
    # Those who were told of the failure, and did not suspect it themselves, have no first time.
    suspected = [(row, row.suspected_ns) for row in rows if row.suspected_ns is not None]
    if not suspected:
        raise DemoFailed(f"no broker recorded the failure of {victim.uid} in {trace}")
    return Repaired(
        survivors=len(survivors),
        observers=len(rows),
        confirmed_s=max(_seconds(since, row.confirmed_ns) for row, since in suspected),
        repaired_s=max(_seconds(since, row.repaired_ns) for row, since in suspected),
        seen_whole_s=seen_whole_s,
        messages=sum(row.messages for row in rows),
    )


async def dismiss(fleet: Fleet) -> Left:
    """Let all brokers leave."""
    start, brokers = trio.current_time(), len(fleet.brokers)
    await fleet.dismiss()
    return Left(brokers=brokers, seconds=trio.current_time() - start)


class _Spread(msgspec.Struct, frozen=True):
    p50: float | None
    max: float | None


class _Deliveries(msgspec.Struct, frozen=True):
    once: int = 0
    twice: int = 0
    disordered: int = 0
    lost: int = 0
    longest_s: float = 0.0


class _Churn(msgspec.Struct, frozen=True):
    """What the demo needs of what ``chordal sim run --json`` prints."""

    nodes: int
    deliveries: _Deliveries
    done: dict[str, int] = {}
    repair_s: _Spread | None = None


async def churn(stage: Stage, scale: Scale, out: Path) -> Churned:
    """Simulate whole brokers that come and go, in virtual time, while events flow between them."""
    start = trio.current_time()
    printed = await stage.run(
        *("sim", "run", "delivery-under-churn", "--nodes", str(scale.churn_nodes)),
        *("--set", f"seconds={scale.churn_s}", "--set", f"churn.0.mean_s={scale.session_s}"),
        *("--out", out, "--json"),
    )
    found = msgspec.json.decode(printed, type=_Churn)
    events = found.deliveries
    return Churned(
        brokers=found.nodes,
        virtual_s=scale.churn_s,
        died=found.done.get("crash", 0),
        joined=found.done.get("join", 0),
        deliveries=events.once + events.twice + events.disordered,
        once=events.once,
        lost=events.lost,
        longest_s=events.longest_s,
        repaired_s=None if found.repair_s is None else found.repair_s.max,
        seconds=trio.current_time() - start,
    )


async def sweep(stage: Stage, scale: Scale, out: Path) -> Swept:
    """Simulate rings of several sizes, spread over Spark's executors."""
    start = trio.current_time()
    sizes = ",".join(map(str, scale.nodes))
    printed = await stage.run(
        *("recovery", "sweep", "--nodes", sizes, "--seeds", str(scale.seeds)),
        *("--out", out, "--json"),
    )
    runs = msgspec.json.decode(printed)["done"]
    return Swept(nodes=scale.nodes, runs=runs, seconds=trio.current_time() - start)


class _Group(msgspec.Struct, frozen=True):
    source: str
    measure: str = ""
    quantile: str = "p50"
    words: str = ""
    broker_failed: int = 0


class _Analysis(msgspec.Struct, frozen=True):
    """What the demo needs of what ``chordal recovery analyze --json`` prints."""

    report: str
    counts: tuple[_Group, ...]
    verdicts: tuple[_Group, ...]


async def analyse(stage: Stage, data: Path, report: Path) -> Analysed:
    """Let Spark analyse what was simulated, and what the brokers of this demo recorded."""
    printed = await stage.run("recovery", "analyze", data, "--out", report, "--json")
    analysis = msgspec.json.decode(printed, type=_Analysis)
    words = {
        v.measure: v.words
        for v in analysis.verdicts
        if (v.source, v.quantile) == (Source.SIMULATOR, "p50")
    }
    simulated = [group for group in analysis.counts if group.source == Source.SIMULATOR]
    return Analysed(
        crashes=sum(group.broker_failed for group in simulated),
        recovery_time=words["total"],
        messages=words["messages"],
        report=analysis.report,
    )


def _urls(fleet: Fleet) -> tuple[str, ...]:
    return tuple(broker.url for broker in fleet.brokers)


async def _until_whole(url: str, size: int, *, at_rest: bool = False) -> None:
    """Walk the ring until it is whole and of ``size``; with ``at_rest``, until its links are."""
    findings: tuple[str, ...] = ()
    with trio.move_on_after(RING_PATIENCE_SECONDS):
        while True:
            walk = await walk_ring(url, identity=None, overlay="chordal", timeout_s=5)
            findings = walk.expecting(size).findings
            if not findings and (not at_rest or _is_at_rest(walk)):
                return
            await trio.sleep(POLL_SECONDS)
    why = "; ".join(findings) or "brokers keep links that no end wants, or lack secure ones"
    raise DemoFailed(f"the ring did not come to rest in {RING_PATIENCE_SECONDS:g} s: {why}")


def _is_at_rest(walk: Walk) -> bool:
    """Say whether every link is wanted at one end at least, and has a secure one beside it."""
    own = {status.uid for status in walk.brokers}
    links: dict[LinkClass, set[frozenset[str]]] = {link_class: set() for link_class in LinkClass}
    wanted: set[frozenset[str]] = set()
    for status in walk.brokers:
        for link in status.links:
            if link.uid in own:
                ends = frozenset((status.uid, link.uid))
                links[link.link_class].add(ends)
                if link.roles:
                    wanted.add(ends)
    return links[LinkClass.NORMAL] == links[LinkClass.SECURE] == wanted


async def _incidents(trace: Path, subject: str, observers: set[str]) -> list[Incident]:
    """Return what brokers recorded of one failure, once all ``observers`` have, or some time."""
    rows: list[Incident] = []
    with trio.move_on_after(TRACE_PATIENCE_SECONDS):
        while not observers <= {row.observer for row in rows}:
            await trio.sleep(POLL_SECONDS)
            rows = [
                row
                for path in sorted((trace / "incidents").glob("*.jsonl"))
                for line in path.read_bytes().splitlines()
                if (row := msgspec.json.decode(line, type=Incident)).subject == subject
                and row.verdict is Verdict.BROKER_FAILED
            ]
    return rows


def _seconds(since_ns: int, until_ns: int | None) -> float:
    """Return how long it took; a failure that was confirmed and repaired has all its times."""
    if until_ns is None:
        raise DemoFailed("a trace says that the broker failed, but not when that was settled")
    return (until_ns - since_ns) / NANOS_PER_SECOND
