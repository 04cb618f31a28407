"""What ``--join`` may say beside URLs. Pure.

::

    dns:NAME[:PORT][@SERVER[:PORT]]   dns:brokers.example.org, dns:brokers.example.org:9470
    mdns:[ADDRESS]                    mdns:, mdns:192.168.1.7 (by that interface alone)
    file:PATH                         file:/etc/chordal/brokers
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from overlay.address import DEFAULT_PORT, Address, parse_endpoint, parse_url
from overlay.errors import ConfigError

MAX_FOUND = 256  #: brokers taken from one target: others have a word in what it says
DNS_PORT = 53
FORMS = "write chordal://HOST:PORT, dns:NAME[:PORT], mdns: or file:PATH"


@dataclass(frozen=True, slots=True)
class DnsTarget:
    """A name whose records say where brokers are."""

    name: str
    port: int | None  #: of all its addresses; None: as SRV records say, or 9470
    server: tuple[str, int] | None = None  #: asked instead of the system's servers

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return f"dns:{self.name}{port}" + ("" if self.server is None else f"@{self.server[0]}")


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """Brokers that announce themselves on the local network."""

    interface: str | None  #: address of the one to use; None: all

    def __str__(self) -> str:
        return f"mdns:{self.interface or ''}"


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A file that lists URLs."""

    path: Path

    def __str__(self) -> str:
        return f"file:{self.path}"


Target = DnsTarget | LocalTarget | FileTarget


@dataclass(frozen=True, slots=True)
class Found:
    """What a target says now."""

    addresses: tuple[Address, ...]
    problem: str = ""  #: why it says nothing, or not all; the addresses are then the earlier ones


def parse_join(texts: Iterable[str]) -> tuple[tuple[Address, ...], tuple[Target, ...]]:
    """Return the URLs and the other targets in some texts, each with commas in between.

    Raises:
        ConfigError: one is neither.
    """
    addresses: dict[Address, None] = {}
    targets: dict[Target, None] = {}
    for text in texts:
        for item in filter(None, (part.strip() for part in text.split(","))):
            kind, _, rest = item.partition(":")
            if "://" in item:
                addresses[parse_url(item)] = None
            elif kind == "dns":
                targets[_dns(rest, item)] = None
            elif kind == "mdns":
                interface = parse_endpoint(rest, default_port=0)[0] if rest else None
                targets[LocalTarget(interface)] = None
            elif kind == "file" and rest:
                targets[FileTarget(Path(rest))] = None
            else:
                raise ConfigError(f"{item!r} names no brokers; {FORMS}")
    return tuple(addresses), tuple(targets)


def parse_announce(text: str) -> LocalTarget:
    """Return the local network on which a broker is to announce itself.

    Raises:
        ConfigError: the text names none.
    """
    match parse_join([text]):
        case (), (LocalTarget() as target,):
            return target
    raise ConfigError(f"{text!r} is no local network; write mdns: or mdns:ADDRESS")


def parse_list(text: str, source: str) -> tuple[Address, ...]:
    """Return the URLs of a file: on lines or with commas in between; ``#`` begins a remark.

    Raises:
        ConfigError: a line has something else; the text names ``source`` and the line.
    """
    found: dict[Address, None] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        for item in line.partition("#")[0].replace(",", " ").split():
            try:
                found[parse_url(item)] = None
            except ConfigError as error:
                raise ConfigError(f"{source}: line {number}: {error}") from error
    if len(found) > MAX_FOUND:
        raise ConfigError(f"{source}: {len(found)} brokers, {MAX_FOUND} are allowed; name a few")
    return tuple(found)


def _dns(text: str, item: str) -> DnsTarget:
    place, at, server = text.partition("@")
    if not place or (at and not server):
        raise ConfigError(f"{item!r} names no brokers; {FORMS}")
    host, port = parse_endpoint(place, default_port=0)
    asked = parse_endpoint(server, default_port=DNS_PORT) if server else None
    return DnsTarget(host.rstrip("."), port or None, asked)


def default_port(target: DnsTarget) -> int:
    """Return the port of an address that no SRV record names."""
    return target.port or DEFAULT_PORT
