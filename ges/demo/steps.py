"""The steps of the demo: brokers, commands that anybody may type, and a sentence on each.

Brokers run as processes of their own, as do the commands. The demo reads what a command prints with
``--json``, and fails where that is not as it should be.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import trio

from ges.demo.progress import Step, Telling
from ges.errors import DemoFailed
from ges.operations.local_brokers import LocalBrokers, Ready, local_brokers
from overlay.trace_schema import Incident, Verdict
from overlay.wording import counted

BROKERS, CLUSTERED, LIMIT = 8, 9, 3
SUBSCRIBERS = 4
SPARK_SECONDS = 900.0  #: for a step on a machine that has other things to do, too
TRACE_SECONDS = 5.0  #: for the neighbours of the killed broker to write what they saw
POLL_SECONDS = 0.01

Found = dict[str, Any]  #: what a command has printed as JSON


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything."""

    events: int  #: of a step
    nodes: tuple[int, ...]  #: sizes of the simulated rings
    churn_nodes: int  #: size of the simulated ring under churn
    churn_s: float  #: seconds of virtual time that churn goes on
    session_s: float  #: that a broker stays, in the mean


FULL = Scale(events=8000, nodes=(64, 128, 256, 512), churn_nodes=16, churn_s=60.0, session_s=120.0)
QUICK = Scale(events=2000, nodes=(16, 32, 64), churn_nodes=6, churn_s=20.0, session_s=30.0)


async def demonstrate(folder: Path, scale: Scale, out: Path, tell: Telling) -> Found:
    """Do the main job end to end; the data set goes to ``out/data``, the report beside it.

    Returns what was found, by step. ``folder``: for the files of processes.

    Raises:
        ChordalError: something did not go as it should; everything has been stopped.
    """
    found: Found = {}
    async with local_brokers(folder) as local:
        demo = _Demo(local, scale, out, tell)
        for title, doing, seconds in (
            ("identities", demo.issue, 120.0),
            ("ring", demo.form_ring, 120.0),
            ("events", demo.send_events, 120.0),
            ("secure events", demo.send_secure, 120.0),
            ("a plain hop", demo.refuse_secure, 120.0),
            ("kill -9", demo.kill_one, 120.0),
            ("events since", demo.send_events, 120.0),
            ("shutdown", demo.dismiss, 120.0),
            ("clusters", demo.form_clusters, 180.0),
            ("churn", demo.simulate_churn, SPARK_SECONDS),
            ("sweep", demo.sweep, SPARK_SECONDS),
            ("analysis", demo.analyse, SPARK_SECONDS),
        ):
            with tell.step(title, seconds) as step:
                found[title], step.found = await doing(step)
    return found


class _Demo:
    """State that the steps share; each step returns its finding, and the sentence on it."""

    def __init__(self, local: LocalBrokers, scale: Scale, out: Path, tell: Telling) -> None:
        self._local = local
        self._scale = scale
        self._out = out
        self._identities = local.folder / "identities"
        self._ready: list[Ready] = []  #: brokers on the ring

    async def issue(self, step: Step) -> tuple[Found, str]:
        """Create the overlay's authority, and an identity for each broker and for a client."""
        authority = self._identities / "authority"
        await self._run(step, "identity", "init", authority)
        own = [(self._identities / f"broker-{n}", "--broker") for n in range(BROKERS)]
        async with trio.open_nursery() as nursery:
            for folder, role in (*own, (self._identities / "client", "--client")):
                nursery.start_soon(self._run, step, "identity", "issue", authority, folder, role)
        said = f"an authority, and from it identities for {BROKERS} brokers and a client"
        return {"brokers": BROKERS, "clients": 1}, said

    async def form_ring(self, step: Step) -> tuple[Found, str]:
        """Start the brokers at once, all with one list: they form the ring by themselves."""
        began = trio.current_time()
        own = ("--data", self._local.folder / "data-{}", "--trace", self._out / "data")
        identity = ("--identity", self._identities / "broker-{}")
        self._ready = await self._ring_of(step, BROKERS, *own, *identity)
        found = await self._whole(step, BROKERS)
        found["seconds"] = trio.current_time() - began
        survives = found["connectivity"]["ring_links"]["survives"]
        return found, (
            f"{BROKERS} processes started at once, each with the list of all; whole after "
            f"{found['seconds']:.1f} s, and its links survive the loss of any {survives} brokers"
        )

    async def send_events(self, step: Step) -> tuple[Found, str]:
        """Send events from one broker to subscribers at another; the rest want none of them."""
        urls = [self._ready[0].url, self._ready[len(self._ready) // 2].url]
        return await self._send(step, *urls)

    async def send_secure(self, step: Step) -> tuple[Found, str]:
        """Send secure events, once a first one has found a secure path to all who want them."""
        here, there = (self._ready[n].secure_url or "" for n in (0, len(self._ready) // 2))
        secure = ("--class", "secure", "--identity", self._identities / "client")
        await self._run(step, "pub", "demo/secret", "--park", "30s", "--broker", here, *secure)
        return await self._send(step, here, there, *secure)

    async def refuse_secure(self, step: Step) -> tuple[Found, str]:
        """Publish a secure event over a hop that is not."""
        command = ("pub", "demo/secret", "--class", "secure", "--broker", self._ready[0].url)
        step.command("chordal", *command)
        failed = await self._local.run(*command, code=1)
        reason = failed.last_words().strip().removeprefix("chordal: error: ")
        return {"reason": reason}, f"a secure event is refused: {reason}"

    async def kill_one(self, step: Step) -> tuple[Found, str]:
        """Kill a broker, and time the repair from both sides."""
        victim, broker = self._ready.pop(1), self._local.brokers.pop(1)
        step.command("kill", "-9", str(broker.process.pid))
        began = trio.current_time()
        broker.kill()
        found = await self._whole(step, len(self._ready))
        found["seconds"] = trio.current_time() - began
        rows = await self._incidents(victim.uid)
        repaired = [
            (row.repaired_ns - row.suspected_ns) / 1e6
            for row in rows
            if row.suspected_ns is not None and row.repaired_ns is not None
        ]
        if not repaired:
            raise DemoFailed(f"no broker recorded the failure of {victim.uid}")
        found |= {"observers": len(rows), "repaired_ms": max(repaired)}
        return found, (
            f"by the traces of {counted(len(rows), 'neighbour')} repaired {max(repaired):.0f} ms "
            f"after the suspicion; a check found the ring of {len(self._ready)} whole "
            f"{found['seconds']:.1f} s after the kill"
        )

    async def dismiss(self, step: Step) -> tuple[Found, str]:
        """Let all brokers leave."""
        began, leaving = trio.current_time(), list(self._local.brokers)
        await self._local.dismiss()
        if failed := [each for each in leaving if each.process.poll() != 0]:
            raise failed[0].failure()
        found = {"brokers": len(leaving), "seconds": trio.current_time() - began}
        said = f"{len(leaving)} brokers left the ring within {found['seconds']:.1f} s of SIGTERM"
        return found, said

    async def form_clusters(self, step: Step) -> tuple[Found, str]:
        """Start brokers with a small limit, and send events from one cluster to another."""
        began = trio.current_time()
        self._ready = await self._ring_of(step, CLUSTERED, "--unit-limit", str(LIMIT))
        command = ("units", "--check", "--expect", str(CLUSTERED), "--wait", "60")
        tree = await self._ask(step, *command, "--broker", self._ready[0].url)
        formed_s = trio.current_time() - began
        clusters = list(_clusters(tree["units"]))
        first, last = (clusters[at]["brokers"][0]["url"] for at in (0, -1))
        await self._named(step, first, last)
        found, said = await self._send(step, first, last)
        await self._local.dismiss()
        found |= {"clusters": len(clusters), "formed_s": formed_s}
        who = f"{CLUSTERED} brokers formed {len(clusters)} clusters in {formed_s:.1f} s"
        return found, f"{who}; {said}"

    async def simulate_churn(self, step: Step) -> tuple[Found, str]:
        """Simulate whole brokers that come and go, in virtual time, while events flow."""
        scale = self._scale
        found = await self._ask(
            step,
            *("sim", "run", "delivery-under-churn", "--nodes", str(scale.churn_nodes)),
            *("--set", f"seconds={scale.churn_s}", "--set", f"churn.0.mean_s={scale.session_s}"),
            *("--out", self._out / "churn"),
        )
        done, came = found["done"], found["deliveries"]
        lost, longest = came.get("lost", 0), came.get("longest_s", 0.0)
        return found, (
            f"{scale.churn_s:.0f} virtual seconds of {found['nodes']} simulated brokers, of which "
            f"{done.get('crash', 0)} died and {done.get('join', 0)} joined: "
            f"{came.get('once', 0):,} deliveries once and in order, {lost} lost, at most "
            f"{longest:.1f} s under way"
        )

    async def sweep(self, step: Step) -> tuple[Found, str]:
        """Simulate rings of several sizes, spread over Spark's executors."""
        sizes = ",".join(map(str, self._scale.nodes))
        command = ("recovery", "sweep", "--nodes", sizes, "--seeds", "1")
        found = await self._ask(step, *command, "--out", self._out / "data")
        return found, f"rings of {sizes.replace(',', ', ')} brokers simulated by Spark's executors"

    async def analyse(self, step: Step) -> tuple[Found, str]:
        """Let Spark analyse what was simulated, and what the brokers of this demo recorded."""
        command = ("recovery", "analyze", self._out / "data", "--out", self._out / "report")
        found = await self._ask(step, *command)
        words = {
            each["measure"]: each["words"]
            for each in found["verdicts"]
            if (each["source"], each["quantile"]) == ("simulator", "p50")
        }
        crashes = sum(
            each["broker_failed"] for each in found["counts"] if each["source"] == "simulator"
        )
        return found, (
            f"{crashes} simulated crashes; recovery time: {words['total']}; messages per crash: "
            f"{words['messages']}"
        )

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    async def _run(self, step: Step, *words: str | Path) -> str:
        step.command("chordal", *map(str, words))
        return (await self._local.run(*words)).out

    async def _ask(self, step: Step, *words: str | Path) -> Found:
        found: Found = msgspec.json.decode(await self._run(step, *words, "--json"))
        return found

    async def _ring_of(self, step: Step, count: int, *options: str | Path) -> list[Ready]:
        found = await self._local.ring_of(count, *options)
        step.command("chordal", *self._local.brokers[0].arguments)
        return found

    async def _whole(self, step: Step, count: int) -> Found:
        command = ("ring", "--check", "--expect", str(count), "--wait", "30")
        return await self._ask(step, *command, "--broker", self._ready[0].url)

    async def _send(
        self, step: Step, here: str, there: str, *options: str | Path
    ) -> tuple[Found, str]:
        """Measure a flow of events, and see by the brokers' counters who saw any of them."""
        before = await self._counters()
        measured = await self._ask(
            step,
            *("bench", "pubsub", "--count", str(self._scale.events)),
            *("--subscribers", str(SUBSCRIBERS), "--broker", here, "--sub-broker", there),
            *options,
        )
        found: Found = measured["runs"][0]["figures"]
        if found["lost"] or found["received"] != SUBSCRIBERS * self._scale.events:
            raise DemoFailed(f"of {self._scale.events} events {found['received']} deliveries came")
        after = await self._counters()
        ends = {r.uid for r in self._ready if {r.url, r.secure_url} & {here, there}}
        unaware = sum(after[uid] == before.get(uid, 0) for uid in after if uid not in ends)
        found |= {"brokers": len(after), "unaware": unaware}
        return found, (
            f"{self._scale.events:,} from one broker to {SUBSCRIBERS} subscribers at another: none "
            f"lost, {found['received_per_s']:,.0f} deliveries/s, half of them within "
            f"{found['latency']['p50_ms']:.1f} ms; of the other {len(after) - 2} brokers {unaware} "
            "saw none of them"
        )

    async def _counters(self) -> dict[str, int]:
        """Return how many events have come to each broker from others."""
        command = ("ring", "--json", "--broker", self._ready[0].url)
        walk = msgspec.json.decode((await self._local.run(*command)).out)
        return {each["uid"]: each["counters"].get("events_received", 0) for each in walk["brokers"]}

    async def _named(self, step: Step, *urls: str) -> None:
        """Wait until events that are published at brokers name the units that they are for."""
        for url in urls:
            while True:
                why = await self._local.run("why", "demo", "--json", "--broker", url)
                if not msgspec.json.decode(why.out)["to_all"]:
                    break

    async def _incidents(self, subject: str) -> list[Incident]:
        """Return what two brokers at least recorded of one failure; fewer after some seconds."""
        rows: list[Incident] = []
        with trio.move_on_after(TRACE_SECONDS):
            while len(rows) < 2:
                await trio.sleep(POLL_SECONDS)
                rows = [
                    row
                    for path in sorted((self._out / "data" / "incidents").glob("*.jsonl"))
                    for line in path.read_bytes().splitlines()
                    if (row := msgspec.json.decode(line, type=Incident)).subject == subject
                    and row.verdict is Verdict.BROKER_FAILED
                ]
        return rows


def _clusters(units: list[Found]) -> list[Found]:
    """Return the units that have brokers, from a tree of units."""
    found: list[Found] = []
    for unit in units:
        found += [unit] if unit.get("brokers") else _clusters(unit.get("units", []))
    return found
