"""Processes that a command starts on this machine: how they end is told, and none is left."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL

import pytest
import trio

from ges.errors import ProcessFailed
from ges.operations.local_brokers import LocalBrokers, local_brokers
from overlay.net.free_ports import free_ports

pytestmark = pytest.mark.live


async def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    local = LocalBrokers(tmp_path)
    failed = await local.run("pub", "a/#", "x", code=2)
    assert "wildcard" in failed.last_words()
    with pytest.raises(ProcessFailed, match=r"'chordal pub .* ended with exit code 2:\n.*wil"):
        await local.run("pub", "a/#", "x")


async def test_a_broker_that_ends_by_itself_ends_the_block(tmp_path: Path) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(ProcessFailed, match="ended with SIGKILL")):
        async with local_brokers(tmp_path) as local:
            broker = local.start(free_ports(1)[0])
            await broker.joined()
            broker.signal(SIGKILL)
            await trio.sleep_forever()
    assert not broker.is_alive


async def test_a_broker_that_was_killed_begins_a_second_life(tmp_path: Path) -> None:
    async with local_brokers(tmp_path) as local:
        broker = local.start(free_ports(1)[0], "--data", tmp_path / "data")
        first = await broker.joined()
        broker.kill()
        broker.start()
        assert (await broker.joined()).uid == first.uid
        await local.dismiss()
    assert broker.process.poll() == 0
    assert broker.err.count('"joined"') == 2, "one log of both lives"
