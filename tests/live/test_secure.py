"""Secure events between real brokers, with every byte between them looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, whole
from benchmarks.stage.proxy import Proxy, free_port
from benchmarks.stage.waiting import eventually
from overlay.address import parse_url

pytestmark = pytest.mark.live

TOPIC = "ledger/very-private-topic"
PAYLOAD = "the-marker-that-nobody-may-see"
SECRETS = (TOPIC.encode(), PAYLOAD.encode())


@dataclass(frozen=True)
class Identities:
    """Folders of identities under one authority."""

    brokers: tuple[str, ...]
    client: str


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    folder = tmp_path_factory.mktemp("identities")

    def made(*arguments: str) -> None:
        done = chordal_here("identity", *arguments)
        assert done.returncode == 0, done.stderr

    def issued(name: str, role: str) -> str:
        made("issue", str(folder / "authority"), str(folder / name), role)
        return str(folder / name)

    made("init", str(folder / "authority"))
    return Identities(
        tuple(issued(f"broker-{n}", "--broker") for n in range(3)), issued("me", "--client")
    )


@dataclass(frozen=True)
class Watched:
    """A broker that others reach through a proxy, as do the clients through another one."""

    broker: Broker
    between_brokers: Proxy
    to_clients: Proxy

    @property
    def url(self) -> str:
        return f"chordal://127.0.0.1:{self.to_clients.port}"

    @property
    def secure_url(self) -> str:
        return f"chordals://127.0.0.1:{self.to_clients.port}"


@contextmanager
def watched(
    fleet: Fleet, identities: tuple[str | None, ...], *, refuse_tls: bool = False
) -> Iterator[list[Watched]]:
    """Start brokers behind proxies, with or without an identity each; wait for the ring."""
    found: list[Watched] = []
    for identity in identities:
        port = free_port()
        front = Proxy(port, refuse_tls=refuse_tls)
        arguments = ["--listen", f"127.0.0.1:{port}", "--advertise", f"127.0.0.1:{front.port}"]
        if found:
            arguments += ["--join", found[0].broker.url]
        if identity is not None:
            arguments += ["--identity", identity]
        broker = fleet.broker(*arguments)
        assert parse_url(broker.url).port == front.port
        found.append(Watched(broker, front, Proxy(port)))
    try:
        whole(found[0].url, len(found))
        yield found
    finally:
        for one in found:
            one.between_brokers.close()
            one.to_clients.close()


def secure_links(one: Watched) -> list[str]:
    links = one.broker.status()["links"]
    return [link["cipher"] for link in links if link["link_class"] == "secure"]


def has_secure_links(one: Watched, count: int) -> bool:
    return len(secure_links(one)) == count


def assert_nothing_leaked(brokers: list[Watched]) -> None:
    for one in brokers:
        for proxy in (one.between_brokers, one.to_clients):
            for secret in SECRETS:
                assert secret not in proxy.plain


def assert_nothing_is_written(brokers: Fleet) -> None:
    """Neither into the brokers' data, traces and backups, nor into their logs."""
    files = [path for path in brokers.folder.glob("broker-*/**/*") if path.is_file()]
    logs = [*brokers.folder.glob("broker-*.err"), *brokers.folder.glob("broker-*.out")]
    assert len(files) >= 3
    assert len(logs) >= 6
    for path in (*files, *logs):
        assert not any(secret in path.read_bytes() for secret in SECRETS), path


def test_a_secure_event_is_seen_on_no_plain_socket(brokers: Fleet, identities: Identities) -> None:
    with watched(brokers, identities.brokers) as ring:
        for one in ring:
            eventually(partial(has_secure_links, one, 2))
            assert all(cipher.startswith("TLSv1.3") for cipher in secure_links(one))
        me = ("--identity", identities.client)
        subscribers = [
            brokers.subscriber("ledger/#", one.secure_url, "--class", "secure", "--count", "1", *me)
            for one in ring
        ]
        eavesdropper = brokers.subscriber("#", ring[1].url)
        secure = ("--class", "secure", "--broker", ring[2].secure_url)
        published = chordal_here("pub", TOPIC, PAYLOAD, *secure, *me)
        assert published.returncode == 0, published.stderr
        for subscriber in subscribers:
            assert subscriber.ended() == 0
            assert PAYLOAD in subscriber.out
        chordal_here("pub", "ledger/open", "nothing to hide", "--broker", ring[0].url)
        eventually(lambda: "nothing to hide" in eavesdropper.out)
        assert PAYLOAD not in eavesdropper.out
        assert_nothing_leaked(ring)
        assert b"nothing to hide" in b"".join(one.between_brokers.plain for one in ring)
        assert all(one.to_clients.tls > 0 for one in ring)
        assert_nothing_is_written(brokers)


def test_one_insecure_hop_in_the_middle_is_refused(brokers: Fleet, identities: Identities) -> None:
    """A and C hold identities, B does not; no TLS comes through between A and C."""
    first, _, last = identities.brokers
    with watched(brokers, (first, None, last), refuse_tls=True) as (a, b, c):
        me = ("--identity", identities.client)
        beyond = brokers.subscriber("ledger/#", c.secure_url, *me)
        eventually(lambda: chordal_here(*_publish(a, identities)).returncode == 1)
        refused = chordal_here(*_publish(a, identities))
        assert refused.returncode == 1
        assert "no all-secure path" in refused.stderr
        assert c.broker.uid[:8] in refused.stderr
        assert secure_links(a) == secure_links(c) == []
        chordal_here("pub", "ledger/open", "still flows", "--broker", b.url)
        eventually(lambda: "still flows" in beyond.out)
        assert PAYLOAD not in beyond.out
        assert_nothing_leaked([a, b, c])


def _publish(at: Watched, identities: Identities) -> tuple[str, ...]:
    secure = ("--class", "secure", "--broker", at.secure_url)
    return ("pub", TOPIC, PAYLOAD, *secure, "--identity", identities.client)


def test_a_plain_hop_to_the_client_is_refused(brokers: Fleet, identities: Identities) -> None:
    with watched(brokers, identities.brokers[:2]) as ring:
        for command in (["pub", TOPIC, PAYLOAD], ["sub", TOPIC]):
            refused = chordal_here(*command, "--class", "secure", "--broker", ring[0].url)
            assert refused.returncode == 1
            assert "chordals://" in refused.stderr
        assert_nothing_leaked(ring)


def test_a_secure_event_needs_more_than_plain_brokers_around(
    brokers: Fleet, identities: Identities
) -> None:
    with watched(brokers, (identities.brokers[0], None)) as ring:
        refused = chordal_here(*_publish(ring[0], identities))
        assert refused.returncode == 1
        assert "no all-secure path" in refused.stderr
        assert_nothing_leaked(ring)


def test_a_foreign_identity_gets_nowhere(
    brokers: Fleet, identities: Identities, tmp_path: Path
) -> None:
    chordal_here("identity", "init", str(tmp_path / "other"))
    chordal_here("identity", "issue", str(tmp_path / "other"), str(tmp_path / "spy"), "--client")
    with watched(brokers, identities.brokers[:1]) as ring:
        refused = chordal_here(
            *("sub", "#", "--broker", ring[0].secure_url, "--identity", str(tmp_path / "spy")),
        )  # at once, though it would wait for ever for a broker that may come
        assert refused.returncode == 1
        assert "no broker to attach to" in refused.stderr
