"""One script through both drivers, trio's and the simulator's: the brokers must say the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import trio
from trio.testing import MockClock

from benchmarks.stage.memory_streams import MemoryNetwork
from overlay.driver import Driver
from overlay.ids import LinkClass, Nanos, Peer, nanos
from overlay.links.link import Link
from overlay.machine import Command, Fact
from overlay.net.transport import Wire
from overlay.queues.resend import STREAM_MESSAGES, Item
from overlay.rng import rng_for
from overlay.wire.codec import FrameReader, FrameRun, MessageCodec
from overlay.wire.greetings import Goodbye, Hello, Refusal
from ring.config import LAN
from ring.facts import Confirmed, Found, Join, Joined, Leave, Repaired
from ring.node import RingNode
from ring.wire.registry import RING_MESSAGES
from sims.world.network import Distances, Latency
from sims.world.world import CrashMode, World

UIDS = [f"{n:032x}" for n in range(1, 9)]
URLS = {uid: f"chordal://{n}.test:9470" for n, uid in enumerate(UIDS, start=1)}
END = nanos(30)

#: uid -> (time, fact), in order.
Story = dict[str, list[tuple[Nanos, Fact]]]


@dataclass(frozen=True)
class Step:
    """At ``time`` broker ``uid`` is given ``command``, or killed if that is None."""

    time: Nanos
    uid: str
    command: Command | None


def script() -> list[Step]:
    """Eight brokers join one after the other; one is killed, later one leaves."""
    steps = [Step(nanos(0.1), UIDS[0], Found())]
    for n, uid in enumerate(UIDS[1:], start=1):
        seeds = (URLS[UIDS[0]], URLS[UIDS[n // 2]])
        steps.append(Step(nanos(0.1 + 0.7 * n), uid, Join(seeds)))
    steps.append(Step(nanos(15.03), UIDS[3], None))
    steps.append(Step(nanos(20.07), UIDS[5], Leave()))
    return steps


class FixedLatency(Latency):
    """A latency for each pair that never changes, and is no two pairs' the same."""

    def __init__(self) -> None:
        super().__init__(Distances(base_ns=0, side_ns=0, jitter_ns=0), 0)

    def one_way_ns(self, a: str, b: str) -> Nanos:
        return 300_000 + rng_for("pair", *sorted((a, b))).randrange(400_000)


def machine(uid: str) -> RingNode:
    return RingNode(LAN, Peer(uid, 1, URLS[uid]), rng_for("parity", uid))


def simulated() -> Story:
    world = World(FixedLatency())
    story: Story = defaultdict(list)
    world.on_fact = lambda uid, fact: story[uid].append((world.now, fact))
    for step in script():
        world.run(step.time)
        if step.command is None:
            world.crash(step.uid, CrashMode.KILL)
            continue
        if step.uid not in world.hosts:
            world.add(machine(step.uid))
        world.give(step.uid, step.command)
    world.run(END)
    return story


@dataclass
class Listener:
    """The layer above one driver: notes what the machine says."""

    facts: list[tuple[Nanos, Fact]] = field(default_factory=list)
    driver: Driver | None = None

    def on_fact(self, fact: Fact) -> None:
        assert self.driver is not None
        self.facts.append((self.driver.now(), fact))

    def on_frames(self, link: Link, run: FrameRun) -> Iterable[None]:
        raise AssertionError("no events in this script")

    async def on_batch(self, link: Link) -> None:
        pass

    def on_changes(self) -> None:
        pass

    def on_cut(self, link: Link) -> None:
        pass

    def on_orphans(self, peer: Peer, link_class: LinkClass, items: list[Item]) -> None:
        raise AssertionError("no events in this script")

    def judge_broker(self, wire: Wire) -> Refusal | None:
        return None

    @property
    def needed(self) -> Collection[str]:
        return ()

    async def on_client(self, hello: Hello, wire: Wire, reader: FrameReader) -> None:
        raise AssertionError("no clients in this script")


async def _on_trio() -> Story:
    uid_of = {url: uid for uid, url in URLS.items()}
    latency = FixedLatency()
    network = MemoryNetwork(lambda a, b: latency.one_way_ns(uid_of[a], uid_of[b]))
    codec = MessageCodec(*RING_MESSAGES, *STREAM_MESSAGES, Goodbye)
    listeners = {uid: Listener() for uid in UIDS}
    scopes: dict[str, trio.CancelScope] = {}
    for uid, listener in listeners.items():
        transport = network.transport(URLS[uid])
        listener.driver = Driver(machine(uid), transport, codec, listener)
    start = trio.current_time()

    async def run(
        uid: str, driver: Driver, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with trio.CancelScope() as scopes[uid]:
            await driver.run(task_status=task_status)

    async with trio.open_nursery() as nursery:
        for step in script():
            await trio.sleep_until(start + step.time / 1e9)
            driver = listeners[step.uid].driver
            assert driver is not None
            if step.command is None:
                scopes[step.uid].cancel()
                continue
            if step.uid not in scopes:
                await nursery.start(run, step.uid, driver)
            driver.give(step.command)
        await trio.sleep_until(start + END / 1e9)
        nursery.cancel_scope.cancel()
    return {uid: listener.facts for uid, listener in listeners.items()}


def on_trio() -> Story:
    return trio.run(_on_trio, clock=MockClock(autojump_threshold=0))


def test_both_drivers_tell_the_same_story() -> None:
    there, here = simulated(), on_trio()
    for uid in UIDS:
        assert [fact for _, fact in here[uid]] == [fact for _, fact in there[uid]]
        # Crossing calls are settled by a refusal in one world and by a look in the other, which
        # can move what follows by the time of two messages.
        for (live, fact), (virtual, _) in zip(here[uid], there[uid], strict=True):
            assert abs(live - virtual) < nanos(2e-3), fact


def test_the_script_is_worth_comparing() -> None:
    facts = [fact for told in simulated().values() for _, fact in told]
    for kind, least in ((Joined, 8), (Confirmed, 4), (Repaired, 4)):
        assert sum(isinstance(fact, kind) for fact in facts) >= least
