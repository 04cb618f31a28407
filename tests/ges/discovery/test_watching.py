"""Targets that are watched: what they say is one list, and the list follows them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
import trio

from benchmarks.stage.waiting import until
from ges.discovery import local_network
from ges.discovery.targets import DnsTarget, FileTarget, LocalTarget, Target
from ges.discovery.watching import Watching, require
from overlay.address import Address
from overlay.errors import ConfigError
from overlay.ids import uid_of
from tests.helpers.dns_server import DnsServer, dns_server

SRV = "_chordal._tcp.b.example"


@pytest.fixture
def dns() -> Iterator[DnsServer]:
    with dns_server() as server:
        yield server


@asynccontextmanager
async def watched(*targets: Target, overlay: str = "chordal") -> AsyncIterator[list[list[str]]]:
    """The lists that are told, as they come."""
    told: list[list[str]] = []
    log = structlog.get_logger("test")
    async with trio.open_nursery() as nursery:
        watching = Watching(
            targets, overlay, log, lambda found: told.append([each.url for each in found])
        )
        nursery.start_soon(watching.run)
        yield told
        nursery.cancel_scope.cancel()


def by(server: DnsServer, name: str, port: int | None = None) -> DnsTarget:
    return DnsTarget(name, port, ("127.0.0.1", server.port))


async def test_addresses_of_both_families_get_the_port_given(dns: DnsServer) -> None:
    dns.records = {
        ("b.example", "A"): ["127.0.0.2", "127.0.0.1"],
        ("b.example", "AAAA"): ["::1"],
        (SRV, "SRV"): ["0 0 1 b.example."],
    }
    async with watched(by(dns, "b.example", 9480)) as told:
        await until(lambda: told)
    assert told == [
        ["chordal://127.0.0.1:9480", "chordal://127.0.0.2:9480", "chordal://[::1]:9480"]
    ]
    assert {kind for _, kind in dns.asked} == {"A", "AAAA"}, "a port says all that SRV would"


@pytest.mark.parametrize("name", ["b.example", SRV])
async def test_srv_records_name_hosts_and_ports(dns: DnsServer, name: str) -> None:
    dns.records = {
        (SRV, "SRV"): ["0 0 9471 one.example.", "0 0 9472 two.example."],
        ("one.example", "A"): ["127.0.0.1"],
        ("two.example", "AAAA"): ["::1"],
        ("b.example", "A"): ["127.0.0.9"],
    }
    async with watched(by(dns, name)) as told:
        await until(lambda: told)
    assert told == [["chordal://127.0.0.1:9471", "chordal://[::1]:9472"]]


async def test_without_srv_records_the_default_port_counts(dns: DnsServer) -> None:
    dns.records = {("b.example", "A"): ["127.0.0.3"]}
    async with watched(by(dns, "b.example")) as told:
        await until(lambda: told)
    assert told == [["chordal://127.0.0.3:9470"]]


async def test_the_list_follows_the_records_and_stands_while_there_is_no_answer(
    dns: DnsServer,
) -> None:
    async with watched(by(dns, "b.example", 1)) as told:
        await until(lambda: told == [[]])
        with structlog.testing.capture_logs() as logs:
            dns.records = {("b.example", "A"): ["127.0.0.1"]}
            await until(lambda: told[-1] == ["chordal://127.0.0.1:1"])
            dns.is_broken = True
            await until(lambda: any("cannot look" in row["event"] for row in logs))
        assert told[-1] == ["chordal://127.0.0.1:1"], "what was found stands"
        dns.is_broken = False
        dns.records = {("b.example", "A"): ["127.0.0.2"]}
        await until(lambda: told[-1] == ["chordal://127.0.0.2:1"])


async def test_a_file_is_read_again_as_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "brokers"
    async with watched(FileTarget(path)) as told:
        await until(lambda: told == [[]], what="a file that is not there yet")
        path.write_text("chordal://127.0.0.1:1\n")
        await until(lambda: told[-1] == ["chordal://127.0.0.1:1"])
        with structlog.testing.capture_logs() as logs:
            path.write_text("chordal://127.0.0.1:1\nnonsense\n")
            await until(lambda: logs)
        assert "line 2: 'nonsense'" in logs[0]["why"]
        assert told[-1] == ["chordal://127.0.0.1:1"]
        (tmp_path / "new").write_text("chordal://127.0.0.1:2")
        os.replace(tmp_path / "new", path)
        await until(lambda: told[-1] == ["chordal://127.0.0.1:2"])


async def test_a_file_that_is_wrong_from_the_beginning_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "brokers"
    path.write_text("nonsense")
    with trio.fail_after(20), pytest.raises(ExceptionGroup) as failed:
        async with watched(FileTarget(path)):
            await trio.sleep_forever()
    assert failed.group_contains(ConfigError, match="line 1: 'nonsense'")


async def test_brokers_on_the_local_network_find_each_other_come_and_go() -> None:
    """By multicast on loopback alone."""
    here = LocalTarget("127.0.0.1")

    async def announced(number: int, overlay: str, scope: trio.CancelScope) -> None:
        uid, address = uid_of(b"%d" % number), Address("127.0.0.1", number)
        with scope:
            await local_network.announce(here, overlay, uid, address, advertised_at="127.0.0.1")

    scopes = [trio.CancelScope() for _ in range(3)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(announced, 1001, "chordal", scopes[0])
        nursery.start_soon(announced, 1002, "another", scopes[1])
        async with watched(here) as told:
            await until(lambda: told and told[-1] == ["chordal://127.0.0.1:1001"])
            nursery.start_soon(announced, 1003, "chordal", scopes[2])
            both = ["chordal://127.0.0.1:1001", "chordal://127.0.0.1:1003"]
            await until(lambda: told[-1] == both)
            scopes[0].cancel()
            await until(lambda: told[-1] == both[1:])
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("target", "library"),
    [(DnsTarget("b", None), "dns.asyncresolver"), (LocalTarget(None), "zeroconf")],
)
def test_without_its_library_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, target: Target, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigError, match=r"'\.\[discovery\]'"):
        require([target])
