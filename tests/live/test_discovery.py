"""Brokers that find each other by DNS, a file and the local network, through the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet, whole
from benchmarks.stage.waiting import eventually
from overlay.net.free_ports import free_ports
from tests.helpers.dns_server import dns_server

pytestmark = pytest.mark.live

SRV = ("_chordal._tcp.b.example", "SRV")


def test_brokers_that_a_dns_name_names_form_one_ring(brokers: Fleet) -> None:
    ports = free_ports(2)
    with dns_server() as dns:
        dns.records = {
            SRV: [f"0 0 {port} host.example." for port in ports],
            ("host.example", "A"): ["127.0.0.1"],
        }
        join = ("--join", f"dns:b.example@127.0.0.1:{dns.port}")
        for port in ports:
            brokers.broker("--listen", str(port), *join)
        whole(brokers.brokers[0].url, 2)
        late = brokers.broker(*join)  # it does not stand in the list
        assert late.ready["ready"]
        whole(late.url, 3)


def test_a_list_that_grows_while_a_broker_waits_is_taken_up(brokers: Fleet) -> None:
    first = brokers.broker()
    with dns_server() as dns:
        waiting = brokers.broker("--join", f"dns:b.example@127.0.0.1:{dns.port}")
        eventually(lambda: "not joined yet" in waiting.err)
        assert "b.example has no A or AAAA records that name an address" in waiting.err
        assert waiting.out == ""
        host, _, port = first.url.removeprefix("chordal://").rpartition(":")
        dns.records = {SRV: [f"0 0 {port} host.example."], ("host.example", "A"): [host]}
        assert waiting.ready["ready"]
        whole(first.url, 2)


def test_a_file_that_changes_brings_two_rings_together(brokers: Fleet, tmp_path: Path) -> None:
    first = brokers.broker()
    path = tmp_path / "brokers"
    port, *_ = free_ports(1)
    own = f"chordal://127.0.0.1:{port}"
    path.write_text(f"{own}  # this one\n")
    second = brokers.broker("--listen", str(port), "--join", f"file:{path}")
    assert second.ready["ready"], "it has founded a ring, as nobody else was named"
    path.write_text(f"{own}\n{first.url}\n")
    whole(first.url, 2)
    rows = [json.loads(line) for line in second.err.splitlines()]
    named = [row["urls"] for row in rows if row["event"] == "brokers named"]
    assert named == [[own], [own, first.url]]


def test_brokers_on_one_network_find_each_other_without_a_list(brokers: Fleet) -> None:
    """By multicast on loopback alone."""
    both = ("--join", "mdns:127.0.0.1", "--announce", "mdns:127.0.0.1", "--overlay", "home")
    for _ in range(2):
        brokers.broker(*both)
    assert all(broker.ready["ready"] for broker in brokers.brokers)
    url = brokers.brokers[0].url
    found = eventually(
        lambda: (
            chordal_here(
                *(
                    "ring",
                    "--check",
                    "--expect",
                    "2",
                    "--json",
                    "--broker",
                    url,
                    "--overlay",
                    "home",
                )
            ).returncode
            == 0
        )
    )
    assert found


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--join", "dns:"], "'dns:' names no brokers; write chordal://HOST:PORT, dns:NAME"),
        (["--join", "127.0.0.1:9470"], "'127.0.0.1:9470' names no brokers"),
        (["--announce", "eth0"], "names no brokers"),
        (["--announce", "file:x"], "write mdns: or mdns:ADDRESS"),
        (["--announce"], "would tell the network to call 127.0.0.1, which is each machine's own"),
    ],
)
def test_what_names_no_brokers_is_refused(arguments: list[str], why: str) -> None:
    refused = chordal_here("serve", "--listen", "127.0.0.1:0", *arguments)
    assert refused.returncode == 2
    assert why in refused.stderr


def test_a_file_that_is_wrong_keeps_a_broker_from_starting(brokers: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "brokers"
    path.write_text("chordal://127.0.0.1:1\nhere\n")
    broker = brokers.broker("--join", f"file:{path}")
    assert broker.ended() == 2
    *_, line = broker.err.splitlines()
    assert line.startswith(f"chordal: error: {path}: line 2: 'here' is not a broker URL")
