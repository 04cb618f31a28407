"""Every byte on every socket, in random overlays of secure and plain brokers that break meanwhile.

A secure event's topic and payload must not be seen on any of them, whatever happens: not on plain
links, on ways round failed ones, on the way to plain clients, nor while it is parked. What is open
is seen, so the tap is not blind. And an event that was refused reached nobody.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.stage.brokers import Brokers, running, secure_uids
from benchmarks.stage.waiting import until
from ges.broker import Broker
from ges.client import Client, Subscription, connect
from ges.errors import ConnectionLost, PublishRefused
from overlay.address import Address, parse_url
from overlay.authority.authority import create_authority, issue_identity
from overlay.errors import ConnectionFailed
from overlay.ids import LinkClass, nanos
from overlay.links import acknowledging
from overlay.net.transport import TcpTransport, Wire
from overlay.security.identity import Role
from tests.helpers.tap import Tap, tapped

SECURE = LinkClass.SECURE
MOST = 5
TOPIC, PAYLOAD, OPEN = "vault/very-private-topic", b"nobody-may-see-this", b"anybody-may-see-this"
DEADLINE_SECONDS = 60
PARK_SECONDS = 0.3
DETOUR_SECONDS = 2  #: for a way round a failed link to be found


class Step(Enum):
    """What happens next; the number beside it says to which broker, or between which."""

    PUBLISH = auto()
    PARK = auto()
    OPEN = auto()
    BREAK_TLS = auto()  #: its secure links end, and come back
    CUT_TLS = auto()  #: no TLS to the next one any more
    CUT = auto()  #: no connection to the next one any more, so there is a way round
    ROUND = auto()  #: there is a way round the failed link to the next one, over plain links
    KILL = auto()


@dataclass(frozen=True)
class Scene:
    """Who has an identity, and what happens."""

    secure: tuple[bool, ...]
    steps: tuple[tuple[Step, int], ...]

    @property
    def is_quiet(self) -> bool:
        """Nothing breaks, so who accepts an event delivers it."""
        return all(step in {Step.PUBLISH, Step.PARK, Step.OPEN} for step, _ in self.steps)


scenes = st.builds(
    Scene,
    st.lists(st.booleans(), min_size=2, max_size=MOST).filter(any).map(tuple),
    st.lists(
        st.tuples(st.sampled_from(Step), st.integers(0, MOST - 1)), min_size=1, max_size=6
    ).map(tuple),
)


Attached = tuple[Client, Subscription]


@dataclass
class Cuts:
    """Which calls fail, by port of the caller and of the called."""

    plain: set[frozenset[int]] = field(default_factory=set)
    tls: set[frozenset[int]] = field(default_factory=set)

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        connect_anyhow = TcpTransport.connect

        async def connect_if(transport: TcpTransport, address: Address) -> Wire:
            own = [listener.socket.getsockname()[1] for listener in transport._listeners]
            pair = frozenset((*own[:1], address.port))
            if own and (pair in self.plain or (address.tls and pair in self.tls)):
                raise ConnectionFailed(address.url, "cut off by the test")
            return await connect_anyhow(transport, address)

        patch.setattr(TcpTransport, "connect", connect_if)


@dataclass(frozen=True)
class Identities:
    brokers: tuple[Path, ...]
    client: Path


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    folder = tmp_path_factory.mktemp("identities")
    authority = create_authority(folder / "authority", name="test", lifetime=timedelta(days=9))

    def issued(name: str, role: Role) -> Path:
        issue_identity(authority, folder / name, role=role, lifetime=timedelta(days=1))
        return folder / name

    found = tuple(issued(f"broker-{number}", Role.BROKER) for number in range(MOST))
    return Identities(found, issued("client", Role.CLIENT))


class Play:
    """One scene on real brokers, with a client of each kind at each broker."""

    def __init__(
        self, nursery: trio.Nursery, brokers: Brokers, cuts: Cuts, identities: Identities
    ) -> None:
        self._nursery = nursery
        self._brokers = brokers
        self._cuts = cuts
        self._identities = identities
        self.ring: list[Broker] = []
        self.secured: dict[Broker, Attached] = {}
        self.plain: dict[Broker, Attached] = {}
        self.taken: list[bytes] = []
        self.refused: list[bytes] = []

    async def begin(self, scene: Scene) -> None:
        for number, secure in enumerate(scene.secure):
            chosen = self._identities.brokers[number] if secure else None
            self.ring.append(await self._brokers.start(identity=chosen))
        await self._brokers.whole()
        for broker in self.ring:
            if broker.secure_url is not None:
                self.secured[broker] = await self._attach(
                    broker.secure_url, self._identities.client
                )
            self.plain[broker] = await self._attach(broker.url, None)
        await until(self._is_secured, what=f"secure links of {scene}")

    def _is_secured(self) -> bool:
        """Every link between two brokers with an identity has a secure one, and all know of it."""
        return all(
            (uid, SECURE) in broker.driver.links
            for broker in self.ring
            for (uid, _), link in broker.driver.links.items()
            if link.peer.secure and broker.identity is not None
        ) and all(self._knows_its_reach(broker) for broker in self.ring)

    def _knows_its_reach(self, broker: Broker) -> bool:
        """Whether a broker has a way over secure links to all to whom there is one."""
        by_uid = {each.node.peer.uid: each for each in self.ring}
        reached, new = {broker}, [broker]
        while new:
            near = secure_uids(new.pop())
            new += [by_uid[uid] for uid in near if by_uid[uid] not in reached]
            reached.update(new)
        gateways = broker.node.gateways
        slots = {gateways.slots.get(each.node.peer.uid) for each in reached - {broker}}
        table = gateways.tables.get(SECURE)
        return gateways.is_for_all and all(
            slot is not None and table is not None and table.reached >> slot & 1 for slot in slots
        )

    async def _attach(self, url: str, identity: Path | None) -> Attached:
        attached: Attached = await self._nursery.start(self._hold, url, identity)
        return attached

    async def _hold(
        self, url: str, identity: Path | None, *, task_status: trio.TaskStatus[Attached]
    ) -> None:
        with suppress(ConnectionLost):  # its broker was killed, and no other will do
            async with connect(url, identity=identity) as client, client.subscribe("#") as events:
                task_status.started((client, events))
                await trio.sleep_forever()

    async def do(self, step: Step, number: int) -> None:
        broker = self.ring[number % len(self.ring)]
        other = self.ring[(number + 1) % len(self.ring)]
        ports = frozenset(parse_url(b.url).port for b in (broker, other))
        match step:
            case Step.PUBLISH | Step.PARK:
                await self._publish(number, PARK_SECONDS if step is Step.PARK else 0.0)
            case Step.OPEN:
                with suppress(ConnectionLost):
                    await self.plain[broker][0].publish("open", OPEN)
            case Step.BREAK_TLS:
                await self._abort(lambda a, b, link_class: a is broker and link_class is SECURE)
            case Step.CUT_TLS:
                self._cuts.tls.add(ports)
                await self._abort(
                    lambda a, b, link_class: {a, b} == {broker, other} and link_class is SECURE
                )
            case Step.CUT:
                self._cuts.plain.add(ports)
                await self._abort(lambda a, b, link_class: {a, b} == {broker, other})
            case Step.ROUND if ports in self._cuts.plain:
                with suppress(AssertionError):  # brokers may have died
                    await until(partial(goes_round, broker, other), DETOUR_SECONDS)
            case Step.KILL:
                if broker in self._brokers.alive and len(self._brokers.alive) > 1:
                    self._brokers.kill(broker)

    async def _publish(self, number: int, park: float) -> None:
        client = list(self.secured.values())[number % len(self.secured)][0]
        payload = PAYLOAD + b"-%d" % (len(self.taken) + len(self.refused))
        try:
            await client.publish(TOPIC, payload, link_class=SECURE, park=park, confirm=True)
            self.taken.append(payload)
        except PublishRefused:
            self.refused.append(payload)
        except ConnectionLost:
            pass  # its broker was killed: the event may or may not have gone out

    async def _abort(self, is_hit: Any) -> None:  # noqa: ANN401 - a predicate of three
        hit = []
        by_uid = {broker.node.peer.uid: broker for broker in self.ring}
        for broker in self._brokers.alive:
            for (uid, link_class), link in list(broker.driver.links.items()):
                if is_hit(broker, by_uid.get(uid), link_class):
                    link.connection.abort()
                    hit.append((broker, uid, link_class, link))
        await until(lambda: all(b.driver.links.get((u, c)) is not link for b, u, c, link in hit))


async def play(scene: Scene, identities: Identities) -> tuple[Play, Tap]:
    cuts = Cuts()
    with pytest.MonkeyPatch.context() as patch, tapped(TOPIC.encode(), PAYLOAD, OPEN) as tap:
        cuts.apply(patch)
        # So that there are events that are not acknowledged when a link breaks.
        patch.setattr(acknowledging, "ACK_NS", nanos(0.3))
        with trio.fail_after(DEADLINE_SECONDS):
            async with running() as brokers, trio.open_nursery() as nursery:
                played = Play(nursery, brokers, cuts, identities)
                await played.begin(scene)
                for step, number in scene.steps:
                    await played.do(step, number)
                async with connect(brokers.alive[0].url) as client:
                    await client.publish("open", OPEN)
                if scene.is_quiet:
                    await until(partial(has_all, played), what=f"{scene}")
                nobody_got_what_was_not_for_it(played)
                nursery.cancel_scope.cancel()
    return played, tap


def goes_round(one: Broker, other: Broker) -> bool:
    """There is a way round the failed link between two brokers, over plain links."""
    return other.node.peer.uid in one.node.ring.detours


def has_all(played: Play) -> bool:
    """Every secure subscriber has every event that was taken."""
    wanted = len(played.taken)
    return all(len(secret(events)) >= wanted for _, events in played.secured.values())


def secret(events: Subscription) -> list[bytes]:
    return [event.payload for event in events._events if event.link_class is SECURE]


def nobody_got_what_was_not_for_it(played: Play) -> None:
    for _, events in played.plain.values():
        assert secret(events) == []
        assert all(PAYLOAD not in event.payload for event in events._events)
    for _, events in played.secured.values():
        got = secret(events)
        assert len(set(got)) == len(got)
        assert not set(got) & set(played.refused)


def check(scene: Scene, identities: Identities) -> Play:
    played, tap = trio.run(play, scene, identities)
    assert tap.found == {OPEN}, "a secure event in the open, or a blind tap"
    return played


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(scene=scenes)
def test_no_secure_byte_on_any_socket(scene: Scene, identities: Identities) -> None:
    check(scene, identities)


@pytest.mark.soak
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(scene=scenes)
def test_no_secure_byte_on_any_socket_in_many_overlays(
    scene: Scene, identities: Identities
) -> None:
    check(scene, identities)


#: Events wait for the secure link that is cut, and there is a way round it, but a plain one.
CUT_AND_ROUND = (
    (Step.PUBLISH, 0),
    (Step.CUT, 0),
    (Step.PUBLISH, 1),
    (Step.ROUND, 0),
    (Step.PUBLISH, 0),
    (Step.PUBLISH, 1),
)
#: Events are not acknowledged as the broker dies they have gone to: others get them in its place.
DIES_WITH_EVENTS = (
    (Step.PUBLISH, 0),
    (Step.KILL, 1),
    (Step.PARK, 0),
    (Step.PARK, 0),
    (Step.PUBLISH, 0),
)


@pytest.mark.parametrize(
    ("scene", "taken"),
    [
        (Scene((True, True, True), ((Step.PUBLISH, 0), (Step.PUBLISH, 1), (Step.PARK, 2))), 3),
        (Scene((True, False, True), ((Step.CUT, 0), (Step.PUBLISH, 0), (Step.PARK, 1))), 2),
        (Scene((True, False), ((Step.PUBLISH, 0), (Step.PARK, 0), (Step.PUBLISH, 0))), 3),
        (Scene((True, True, True), CUT_AND_ROUND), 4),
        (Scene((True, True, True), DIES_WITH_EVENTS), None),
        (Scene((True, True), ((Step.CUT_TLS, 0), (Step.CUT_TLS, 1), (Step.PARK, 0))), 0),
    ],
    ids=[
        "all secure",
        "plain in the middle",
        "none but those here",
        "round one link",
        "one dies",
        "no TLS between them",
    ],
)
def test_no_secure_byte_in_overlays_drawn_by_hand(
    scene: Scene, taken: int | None, identities: Identities
) -> None:
    """``taken``: how many secure events; None: that depends on when they are published."""
    played = check(scene, identities)
    assert taken is None or len(played.taken) == taken


def test_the_tap_finds_what_lies_across_two_writes() -> None:
    tap = Tap(b"needle")
    tap.saw(7, b"a need", out=True)
    tap.saw(7, b"le b", out=False)
    assert tap.found == set()
    tap.saw(7, b"le b", out=True)
    assert tap.found == {b"needle"}
