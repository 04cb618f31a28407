"""Fixtures of the tests of the MQTT door."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.stage.brokers import Brokers
from ges.http.tls import CERTIFICATE, KEY
from ges.mqtt.door import MqttDoor
from tests.ges.mqtt.device import door_of
from tests.helpers.web_certificates import WebAuthority


@pytest.fixture
async def door(brokers: Brokers) -> AsyncIterator[MqttDoor]:
    """The door of a broker that is alone."""
    async with door_of(await brokers.start()) as found:
        yield found


@pytest.fixture
def authority(tmp_path: Path) -> WebAuthority:
    """Who signs for the door, and has."""
    folder = tmp_path / "web"
    found = WebAuthority(folder)
    found.issue(folder / CERTIFICATE, folder / KEY)
    return found
