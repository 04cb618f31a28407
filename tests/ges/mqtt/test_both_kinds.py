"""Clients of MQTT and our own ones at the same brokers."""

from __future__ import annotations

import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.client import connect
from ges.mqtt.door import MqttDoor
from ges.mqtt.packets import Kind
from ges.mqtt.properties import Properties, Property
from ges.mqtt.reasons import Reason
from ges.wire.operator_messages import Kick
from overlay.ids import LinkClass
from tests.ges.mqtt.device import (
    Told,
    device,
    door_of,
    puback_packet,
    publish_packet,
    subscribe_packet,
    will_part,
)

DEADLINE_SECONDS = 20


async def test_events_of_either_kind_come_to_both_over_two_brokers(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with (
        door_of(a) as door,
        await device(door) as mqtt,
        connect(b.url) as client,
        client.subscribe("t/#") as events,
    ):
        await mqtt.subscribe("t/#")
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()
            sent = Properties({Property.CONTENT_TYPE: "text/csv"}, (("unit", "C"),))
            await mqtt.publish("t/1", b"21", properties=sent)
            event = await anext(events)
            assert (event.payload, event.attributes) == (
                b"21",
                {"mqtt-content-type": "text/csv", "unit": "C"},
            )
            told = await mqtt.expect(Kind.PUBLISH)
            assert (told.payload, told.properties) == (b"21", sent)
            correlation = bytes(range(16))
            more = {"mqtt-response-topic": "t/#", "unit": "F"}
            await client.publish("t/2", b"70", attributes=more, correlation=correlation, ttl=60)
            told = await mqtt.expect(Kind.PUBLISH)
            assert (told.topic, told.qos) == ("t/2", 1)
            assert told.properties.user == (("unit", "F"),), "no wildcard in a response topic"
            assert told.properties.values[Property.CORRELATION] == correlation
            assert 1 <= told.properties.number(Property.MESSAGE_EXPIRY, 0) <= 60


async def test_express_events_come_to_mqtt_clients(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with door_of(a) as door, await device(door) as mqtt, connect(b.url) as client:
        await mqtt.subscribe("t")
        await client.publish("t", b"quick", link_class=LinkClass.EXPRESS)
        assert (await mqtt.expect(Kind.PUBLISH)).payload == b"quick"


async def test_what_has_ended_while_it_waited_for_an_mqtt_client_is_dropped(door: MqttDoor) -> None:
    async with (
        await device(door, "slow", properties={Property.RECEIVE_MAXIMUM: 1}) as slow,
        await device(door, "quick") as quick,
    ):
        await slow.subscribe("t")
        ends = Properties({Property.MESSAGE_EXPIRY: 1})
        for number in range(3):
            lasts = Properties() if number != 1 else ends
            said = publish_packet("t", b"%d" % number, qos=1, properties=lasts)
            await quick.ask(said, Kind.PUBACK)
        first = await slow.expect(Kind.PUBLISH)
        await trio.sleep(1.1)
        await slow.send(puback_packet(first.packet_id))
        assert (await slow.expect(Kind.PUBLISH)).payload == b"2"


async def test_an_mqtt_client_answers_a_request(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with door_of(a) as door, await device(door) as adder, connect(b.url) as client:
        await adder.subscribe("service/add", options=0)

        async def answer() -> None:
            told = await adder.expect(Kind.PUBLISH)
            topic = told.properties.text(Property.RESPONSE_TOPIC)
            assert topic is not None
            assert topic.startswith("$reply/")
            correlation = told.properties.values[Property.CORRELATION]
            back = Properties({Property.CORRELATION: correlation})
            await adder.publish(topic, told.payload + b"!", properties=back)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            reply = await client.request("service/add", b"hello", timeout=DEADLINE_SECONDS)
        assert reply.payload == b"hello!"
        told = await adder.subscribe("$reply/#")
        assert told.codes[0] >= 0x80, "replies to others are not for it"


async def test_groups_have_members_of_both_kinds(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    got: list[bytes] = []
    async with (
        door_of(a) as door,
        await device(door, "worker") as worker,
        connect(b.url) as client,
        client.subscribe("jobs/+", queue="workers") as events,
        await device(door, "source") as source,
    ):
        await worker.subscribe("$share/workers/jobs/+", options=0)
        with trio.fail_after(DEADLINE_SECONDS):
            await events.active.wait()

            async def hear() -> None:
                while True:
                    got.append((await anext(events)).payload)

            async def take() -> None:
                while True:
                    got.append((await worker.expect(Kind.PUBLISH)).payload)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(hear)
                nursery.start_soon(take)
                for number in range(60):
                    await source.publish(f"jobs/{number}", b"%d" % number)
                await until(lambda: len(got) >= 60, DEADLINE_SECONDS)
                nursery.cancel_scope.cancel()
    assert sorted(got, key=int) == [b"%d" % number for number in range(60)]


async def test_a_broker_that_leaves_says_so_and_wills_go_out(brokers: Brokers) -> None:
    a, b = await brokers.ring_of(2)
    async with (
        door_of(a) as door,
        connect(b.url) as client,
        client.subscribe("wills/#") as wills,
        await device(door, will=will_part("wills/1", b"gone")) as mqtt,
    ):
        with trio.fail_after(DEADLINE_SECONDS):
            await wills.active.wait()
            last: list[Told] = []

            async def hear() -> None:
                last.extend(await mqtt.end())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(hear)
                a.drain()
                await a.drained()
            assert [each.codes for each in last] == [(Reason.SHUTTING_DOWN,)]
            assert (await anext(wills)).payload == b"gone"


async def test_a_client_that_is_kicked_is_told_and_its_will_goes_out(door: MqttDoor) -> None:
    async with await device(door, "watcher") as watcher:
        await watcher.subscribe("wills/#", options=0)
        broker = door._broker
        before = {session.uid for session in broker.clients._sessions}
        async with await device(door, "bad", will=will_part("wills/bad", b"gone")) as bad:
            (uid,) = {session.uid for session in broker.clients._sessions} - before
            async with connect(broker.url) as operator:
                await operator.operate(Kick(uid))
            assert [each.codes for each in await bad.end()] == [(Reason.ADMINISTRATIVE,)]
        assert (await watcher.expect(Kind.PUBLISH)).payload == b"gone"


async def test_a_subscription_holds_at_all_brokers_when_it_is_acknowledged(
    brokers: Brokers,
) -> None:
    a, b = await brokers.ring_of(2)
    async with door_of(a) as door, await device(door) as mqtt, connect(b.url) as client:
        for number in range(20):
            assert (await mqtt.subscribe(f"t/{number}", options=0)).codes == (0,)
            await client.publish(f"t/{number}", b"x")
            assert (await mqtt.expect(Kind.PUBLISH)).topic == f"t/{number}"


async def test_unacknowledged_subscriptions_are_limited(door: MqttDoor) -> None:
    async with await device(door) as client:
        await client.send(b"".join(subscribe_packet("a", packet_id=n + 1) for n in range(5000)))
        answers = 0
        while (told := await client.next()) is not None and answers < 5000:
            assert told.kind in (Kind.SUBACK, Kind.DISCONNECT)
            answers += told.kind is Kind.SUBACK
            if answers == 5000:
                break
        assert told is None or told.kind in (Kind.SUBACK, Kind.DISCONNECT)


async def test_acknowledgements_of_nothing_change_nothing(door: MqttDoor) -> None:
    async with await device(door) as client:
        await client.send(b"".join(puback_packet(number) for number in range(1, 2000)))
        assert await client.is_quiet()
