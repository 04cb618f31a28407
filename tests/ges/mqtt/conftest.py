"""Fixtures of the tests of the MQTT door."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from benchmarks.stage.brokers import Brokers
from ges.mqtt.door import MqttDoor
from tests.ges.mqtt.device import door_of


@pytest.fixture
async def door(brokers: Brokers) -> AsyncIterator[MqttDoor]:
    """The door of a broker that is alone."""
    async with door_of(await brokers.start()) as found:
        yield found
