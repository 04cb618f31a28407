"""URLs of brokers: ``chordal://host:port`` (plain) and ``chordals://host:port`` (TLS).

A broker listens on one port for both; the scheme says how the caller speaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from overlay.errors import AddressError, ConfigError

DEFAULT_PORT = 9470
PLAIN = "chordal"
TLS = "chordals"
V6_SITE_BITS = 64  #: one site has all addresses that share so many first bits


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens, and whether the caller wants TLS."""

    host: str
    port: int
    tls: bool = False

    @property
    def url(self) -> str:
        """The address as :func:`parse_url` reads it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{TLS if self.tls else PLAIN}://{host}:{self.port}"

    def __str__(self) -> str:
        return self.url


def parse_url(text: str) -> Address:
    """Read a broker's URL; the port defaults to 9470.

    Raises:
        AddressError: another scheme, no host, or a port that is none; the text shows a right one.
    """
    example = f"write {PLAIN}://HOST:PORT or {TLS}://HOST:PORT"
    try:
        parts = urlsplit(text.strip())
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise AddressError(f"{text!r} is not a broker URL ({error}); {example}") from error
    if parts.scheme not in (PLAIN, TLS) or not parts.hostname:
        raise AddressError(f"{text!r} is not a broker URL; {example}")
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
        raise AddressError(f"{text!r} says more than a broker URL can; {example}")
    if not 0 < port < 65536:
        raise AddressError(f"{text!r}: port {port} is not between 1 and 65535")
    _check_host(parts.hostname, text)
    return Address(parts.hostname, port, parts.scheme == TLS)


def is_own_url(text: str) -> bool:
    """Say whether a broker may name itself so to others: a plain URL, as :class:`Address` gives it.

    Others call it, list it and print it, so there is nothing in it that does not show.
    """
    try:
        address = parse_url(text)
    except ConfigError:
        return False
    return not address.tls and text == text.strip() and text.isprintable()


def shown(url: str) -> str:
    """Return a URL that somebody has told, as it may be printed."""
    return url if url.isprintable() else repr(url)


def parse_urls(texts: tuple[str, ...] | list[str]) -> list[Address]:
    """Read several URLs, each text holding one or more separated by commas, without repeats."""
    found: dict[Address, None] = {}
    for text in texts:
        for item in text.split(","):
            if item.strip():
                found[parse_url(item)] = None
    return list(found)


def parse_endpoint(
    text: str, *, default_port: int = DEFAULT_PORT, default_host: str | None = None
) -> tuple[str, int]:
    """Read ``HOST:PORT``, ``HOST`` or ``[V6]:PORT`` as a place to listen on; port 0 is allowed.

    A number is a port of ``default_host``, where there is one: nobody calls a host so.

    Raises:
        AddressError: no host, or a port that is none.
    """
    if (number := text.strip()).isascii() and number.isdigit():
        if default_host is None:
            raise AddressError(f"{text!r} is a port alone; write HOST:PORT")
        if len(number) > 5 or int(number) > 65535:
            raise AddressError(f"port {number} is not between 0 and 65535")
        return default_host, int(number)
    try:
        parts = urlsplit(f"//{text.strip()}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressError(f"{text!r} is not HOST:PORT ({error})") from error
    if not host or parts.path or parts.username:
        raise AddressError(f"{text!r} is not HOST:PORT")
    _check_host(host, text)
    return host, default_port if port is None else port


def is_loopback(host: str) -> bool:
    """Say whether ``host`` is this machine by its look alone: ``localhost`` or such an address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def site_of(host: str) -> str:
    """Return what counts as one address: an IPv4 address, or an IPv6 network of 64 bits."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> V6_SITE_BITS << V6_SITE_BITS))


def _check_host(host: str, text: str) -> None:
    """Refuse what the resolver would choke on."""
    try:
        host.encode("idna")
        usable = host.isprintable() and not {" ", ","} & set(host)  # commas part URLs
    except UnicodeError:
        usable = False
    if not usable:
        raise AddressError(f"{text!r}: {host!r} cannot be the name of a host")
