"""What one address can use up through the MQTT door, by wills, messages and shared subscriptions.

The stranger is at 127.0.0.2, and honest clients at 127.0.0.1.
"""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
import trio

from benchmarks.stage.brokers import Brokers
from benchmarks.stage.waiting import until
from ges.client import connect
from ges.http.tls import CLIENTS, AdminTls
from ges.mqtt.door import MqttDoor
from ges.mqtt.packets import MQTT_5, Kind
from ges.mqtt.properties import Property
from ges.mqtt.reasons import Reason
from overlay.limits import Limits
from overlay.shares import Shares
from tests.ges.mqtt.device import Device, connect_packet, device, door_of, publish_packet, will_part
from tests.helpers.web_certificates import WebAuthority

WILL_RETAIN = 0x20
MIB = 1024 * 1024


async def stranger(door: MqttDoor, client_id: str, will: bytes = b"") -> Device:
    """Return an attached client at the stranger's address."""
    stream = await trio.open_tcp_stream("127.0.0.1", door.port, local_address="127.0.0.2")
    found = Device(stream, MQTT_5)
    flags = WILL_RETAIN if will else 0
    said = connect_packet(client_id, will=will, will_flags=flags)
    assert (await found.ask(said, Kind.CONNACK)).codes == (0, 0)
    return found


async def leave_wills(brokers: Brokers) -> None:
    """A broker with 16 MiB retains 1 MiB, of which one address has 224 KiB: three such wills."""
    broker = await brokers.start(memory=16 * MIB)
    values = broker.stack.retaining.values
    async with door_of(broker) as door:
        for number in range(12):
            will = will_part(f"will/{number}", b"x" * 60_000)
            client = await stranger(door, f"c{number}", will)
            await trio.aclose_forcefully(client.stream)
        refused = "retained_refused"
        await until(lambda: len(values) + broker.driver.counters[refused] == 12)
        assert len(values) == 3
        will = will_part("honest", b"x" * 60_000)
        honest = await device(door, "honest", will=will, will_flags=WILL_RETAIN)
        await trio.aclose_forcefully(honest.stream)
        await until(lambda: len(values) == 4, 2.0)


async def test_wills_of_one_address_leave_room_for_others(brokers: Brokers) -> None:
    await leave_wills(brokers)


async def test_without_shares_they_do_not(brokers: Brokers) -> None:
    with (
        mock.patch.object(Shares, "of_one", return_value=2**60),
        pytest.raises(ExceptionGroup),  # of the nursery of the door
    ):
        await leave_wills(brokers)


async def test_messages_and_shared_subscriptions_have_a_share(brokers: Brokers) -> None:
    broker = await brokers.start(limits=Limits(retained=16))
    async with door_of(broker) as door:
        async with await stranger(door, "c") as client:
            for number, code in enumerate((0, 0, 0, Reason.QUOTA)):
                said = publish_packet(f"t/{number}", b"x", qos=1, retain=True)
                told = await client.ask(said, Kind.PUBACK)
                assert told.codes == (code,)
            for first in range(0, 280, 40):
                filters = [f"$share/g{n}/a" for n in range(first, first + 40)]
                told = await client.subscribe(*filters)
            assert told.codes == (Reason.QUOTA,) * 40
            assert broker.node.profiles.grouped == 224
        async with await device(door) as honest:
            said = publish_packet("honest", b"x", qos=1, retain=True)
            assert (await honest.ask(said, Kind.PUBACK)).codes == (0,)
            assert (await honest.subscribe("$share/other/a")).codes == (1,)


async def test_a_certificate_of_mqtt_counts_for_itself(
    brokers: Brokers, authority: WebAuthority, tmp_path: Path
) -> None:
    """It has half of all, and whoever has used up the share of that address is not in its way."""
    folder = authority.certificate.parent
    others = WebAuthority(tmp_path / "devices", "devices")
    (folder / CLIENTS).write_bytes(others.certificate.read_bytes())
    broker = await brokers.start(limits=Limits(retained=16))
    context = authority.client(certified_by=others)
    async with connect(broker.url) as neighbour:
        for number in range(3):
            await neighbour.publish(f"n/{number}", b"x", retain=True, confirm=True)
    async with door_of(broker, AdminTls(folder, "--mqtt-tls", "mqtt")) as door:
        stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", door.port, ssl_context=context)
        async with Device(stream, MQTT_5) as client:
            await client.ask(connect_packet(), Kind.CONNACK)
            for number in range(9):
                said = publish_packet(f"t/{number}", b"x", qos=1, retain=True)
                told = await client.ask(said, Kind.PUBACK)
                assert told.codes == (0 if number < 8 else Reason.QUOTA,)
            why = str(told.properties.text(Property.REASON_STRING))
            assert why.startswith("not retained: certificate ")
