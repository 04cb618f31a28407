"""``chordal identity renew`` and ``revoke``, and ``chordal pub --park``, on running processes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, whole
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live


def made(*arguments: str | Path) -> str:
    done = chordal_here("identity", *map(str, arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    made("init", tmp_path / "authority")
    for name, role in (("a", "--broker"), ("b", "--broker"), ("c", "--broker"), ("me", "--client")):
        made("issue", tmp_path / "authority", tmp_path / name, role)
    return tmp_path / "authority"


def started(fleet: Fleet, folder: Path, *names: str) -> list[Broker]:
    first = fleet.broker("--identity", str(folder / names[0]))
    rest = [
        fleet.broker("--identity", str(folder / name), "--join", first.url) for name in names[1:]
    ]
    whole(first.url, len(names))
    for broker in (first, *rest):
        eventually(partial(has_links, broker, len(names) - 1))
    return [first, *rest]


def secure_links(broker: Broker) -> list[str]:
    return [link["uid"] for link in broker.status()["links"] if link["link_class"] == "secure"]


def has_links(broker: Broker, count: int) -> bool:
    return len(secure_links(broker)) == count


def secure_url(broker: Broker) -> str:
    return str(broker.ready["secure_url"])


def test_a_running_broker_takes_up_a_renewed_certificate(
    brokers: Fleet, authority: Path, tmp_path: Path
) -> None:
    ring = started(brokers, tmp_path, "a", "b")
    before = ring[0].status()["identity"]
    made("renew", authority, tmp_path / "a", "--for", "2h")
    after = eventually(lambda: shows_another(ring[0], before["serial"]))
    assert 7000 < after["expires_in_s"] <= 7200
    eventually(lambda: links_end_within(ring[1], 7200.0))
    assert "identity renewed" in ring[0].err
    table = chordal_here("status", "--broker", ring[1].url).stdout
    assert "TLSv1.3 TLS_" in table
    assert "certificate until" in table


def shows_another(broker: Broker, serial: str) -> dict[str, Any]:
    found: dict[str, Any] = broker.status()["identity"]
    return found if found["serial"] != serial else {}


def links_end_within(broker: Broker, seconds: float) -> bool:
    """All its secure links stand on a certificate of so short a life: they were made anew."""
    links = [link for link in broker.status()["links"] if link["link_class"] == "secure"]
    return bool(links) and all(link["expires_in_s"] <= seconds for link in links)


def test_a_revoked_broker_is_cut_off_everywhere(
    brokers: Fleet, authority: Path, tmp_path: Path
) -> None:
    ring = started(brokers, tmp_path, "a", "b", "c")
    gone = ring[2].uid
    told = chordal_here(
        *("identity", "revoke", str(authority), gone, "--json"),
        *("--at", secure_url(ring[0]), "--identity", str(tmp_path / "me")),
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["revoked"] == [gone]
    eventually(
        lambda: [secure_links(broker) for broker in ring] == [[ring[1].uid], [ring[0].uid], []]
    )
    for broker in ring:
        assert broker.status()["identity"]["revoked"] == 1
    assert "own identity is revoked" in ring[2].err
    published = chordal_here(
        *("pub", "a", "x", "--class", "secure", "--broker", secure_url(ring[0])),
        *("--identity", str(tmp_path / "me")),
    )
    assert published.returncode == 0, published.stderr


def test_who_revokes_itself_is_told_that_the_list_was_taken(
    brokers: Fleet, authority: Path, tmp_path: Path
) -> None:
    """The broker cuts it off, but not before it has answered."""
    broker = brokers.broker("--identity", str(tmp_path / "a"))
    at = ("--at", secure_url(broker), "--identity", str(tmp_path / "me"))
    told = chordal_here("identity", "revoke", str(authority), str(tmp_path / "me"), *at)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == f"list 1, 1 revoked, spread from {secure_url(broker)}\n"
    assert broker.status()["identity"]["revoked"] == 1
    again = chordal_here("identity", "revoke", str(authority), str(tmp_path / "b"), *at)
    assert again.returncode == 1
    assert "list 2 is in" in again.stderr
    assert "but not spread" in again.stderr


def test_a_parked_event_waits_for_the_path(brokers: Fleet, authority: Path, tmp_path: Path) -> None:
    """A plain broker is the only other one until a secure one joins."""
    first = brokers.broker("--identity", str(tmp_path / "a"))
    brokers.broker("--join", first.url)
    whole(first.url, 2)
    me = ("--identity", str(tmp_path / "me"), "--class", "secure")
    expired = chordal_here("pub", "t", "1", "--park", "3 weeks", "--broker", secure_url(first), *me)
    assert expired.returncode == 2
    assert "is no time" in expired.stderr
    expired = chordal_here("pub", "t", "1", "--park", "0.3s", "--broker", secure_url(first), *me)
    assert expired.returncode == 1
    assert "expired, parked for 0.3 s: no all-secure path" in expired.stderr
    waiting = brokers.run("pub", "t", "2", "--park", "60s", "--broker", secure_url(first), *me)
    eventually(lambda: first.status()["parked"] == 1)
    brokers.broker("--identity", str(tmp_path / "b"), "--join", first.url)
    assert waiting.ended() == 0, waiting.err
    assert first.status()["parked"] == 0
