"""A ring of brokers that require an identity: no other broker links to it, and each is told why."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio

from benchmarks.stage.brokers import Brokers, attach
from benchmarks.stage.waiting import until
from ges.broker import Broker, BrokerConfig
from ges.client import connect
from overlay.authority.authority import create_authority, issue_identity
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from overlay.security.identity import Role
from tests.ges.conftest import Issue

DEADLINE_SECONDS = 20
DAY = timedelta(days=1)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A broker's identity of another authority."""
    authority = create_authority(tmp_path / "other", name="other", lifetime=DAY)
    issue_identity(authority, tmp_path / "spy", role=Role.BROKER, lifetime=DAY)
    return tmp_path / "spy"


@asynccontextmanager
async def waiting(brokers: Brokers, **settings: Any) -> AsyncIterator[list[Any]]:  # noqa: ANN401
    """Start a broker that does not come in; yields what is logged."""
    async with trio.open_nursery() as nursery:
        with structlog.testing.capture_logs() as lines:

            async def start() -> None:
                await brokers.start(**settings)

            nursery.start_soon(start)
            yield lines
        nursery.cancel_scope.cancel()


def certified(broker: Broker) -> set[bool]:
    return {link.identity is not None for link in broker.driver.links.values()}


async def test_links_of_all_classes_stand_on_certificates(brokers: Brokers, issue: Issue) -> None:
    with trio.fail_after(DEADLINE_SECONDS):
        started = [
            await brokers.start(identity=issue(Role.BROKER), require_identity=True)
            for _ in range(3)
        ]
        await brokers.whole()
    for broker in started:
        assert certified(broker) == {True}
        assert LinkClass.NORMAL in {link_class for _, link_class in broker.driver.links}
    async with (
        attach(started[0]) as publisher,
        connect(started[2].url) as subscriber,
        subscriber.subscribe("t") as events,
    ):
        await publisher.publish("t", b"1", confirm=True)
        with trio.fail_after(DEADLINE_SECONDS):
            assert (await anext(events)).payload == b"1"
    assert await subscriber_status(started[0]) == ()


async def subscriber_status(broker: Broker) -> tuple[str, ...]:
    async with connect(broker.url, only_looks=True) as tool:
        return (await tool.status()).warnings


async def test_a_broker_without_identity_is_told_what_it_lacks(
    brokers: Brokers, issue: Issue
) -> None:
    closed = await brokers.start(identity=issue(Role.BROKER), require_identity=True)
    async with waiting(brokers) as lines:
        await until(lambda: closed.driver.counters["brokers_without_identity"] > 1)
        await until(lambda: any(line["event"] == "not joined yet" for line in lines))
        (told, *_) = [line for line in lines if line["event"] == "not joined yet"]
        assert "links only to brokers that show an identity" in told["seeds"][closed.url]
        refused = [line for line in lines if "shows no identity" in line["event"]]
        assert [line["log_level"] for line in refused].count("warning") == 1
        assert closed.driver.links == {}


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "open"])
async def test_a_broker_of_another_authority_is_told_so(
    brokers: Brokers, issue: Issue, foreign: Path, is_closed: bool
) -> None:
    """Also where it may link without TLS: it has no secure links then."""
    first = await brokers.start(identity=issue(Role.BROKER), require_identity=is_closed)
    async with waiting(brokers, identity=foreign, require_identity=is_closed) as lines:
        await until(lambda: any(line["event"] == "no link" for line in lines))
        (told, *_) = [line for line in lines if line["event"] == "no link"]
        assert "is not of this authority" in told["why"]
        if is_closed:
            await until(lambda: any(line["event"] == "not joined yet" for line in lines))
            assert first.driver.links == {}


@pytest.mark.parametrize("setting", ["access", "tokens"])
async def test_rules_without_a_closed_ring_warn_at_the_start_and_in_the_status(
    brokers: Brokers, issue: Issue, tmp_path: Path, setting: str
) -> None:
    file = tmp_path / setting
    file.write_text("" if setting == "access" else '{"tokens": []}')
    file.chmod(0o600)
    with structlog.testing.capture_logs() as lines:
        broker = await brokers.start(**{setting: file})
    told = [line for line in lines if "--require-identity" in line["event"]]
    assert [line["log_level"] for line in told] == ["warning"]
    assert await subscriber_status(broker) == (told[0]["event"],)
    closed = replace(broker.config, identity=issue(Role.BROKER), require_identity=True)
    assert closed.warnings == ()
    assert BrokerConfig().warnings == ()


def test_without_an_identity_of_its_own_a_broker_cannot_require_one() -> None:
    with pytest.raises(ConfigError, match="needs an identity; give --identity DIR"):
        Broker(BrokerConfig(require_identity=True))


async def test_who_links_and_attaches_is_logged_once(brokers: Brokers) -> None:
    with structlog.testing.capture_logs() as lines:
        first = await brokers.start()
        second = await brokers.start()
        await brokers.whole()
        for _ in range(3):
            async with connect(first.url):
                pass
    linked = [line for line in lines if line["event"] == "a broker is linked"]
    assert sorted(line["peer"] for line in linked) == sorted(
        broker.node.peer.uid[:8] for broker in (first, second)
    )
    (attached,) = [line for line in lines if line["event"] == "a client is attached"]
    assert (attached["subject"], attached["host"]) == ("anyone", "127.0.0.1")
