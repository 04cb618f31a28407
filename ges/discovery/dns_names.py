"""Brokers by DNS, with dnspython (an extra, and imported late).

``dns:NAME:PORT`` stands for the A and AAAA records of NAME, with that port. ``dns:NAME`` stands for
its SRV records, looked for under ``_chordal._tcp.NAME`` unless NAME begins with ``_`` itself; where
there are none, for its A and AAAA records with the default port.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from ges.discovery.targets import MAX_FOUND, DnsTarget, Found, default_port
from overlay.address import Address
from overlay.errors import MissingExtra

SERVICE = "_chordal._tcp"
LOOKUP_SECONDS = 3.0
LEAST_SECONDS = 1.0  #: between two lookups, whatever the records' time to live
MOST_SECONDS = 30.0


def require_dnspython() -> None:
    """Check that dnspython is there.

    Raises:
        ConfigError: it is not.
    """
    try:
        import dns.asyncresolver  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "dns: needs the discovery extra; in a checkout: pip install '.[discovery]'"
        ) from None


async def watch(target: DnsTarget, tell: Callable[[Found], None]) -> None:
    """Look the name up again and again; what was found stands while a lookup fails."""
    lookups = _Lookups(target)
    addresses: tuple[Address, ...] = ()
    while True:
        problem = ""
        pause = LEAST_SECONDS
        try:
            addresses, pause = await lookups.find()
        except _NothingFound as error:
            problem = str(error)
        tell(Found(addresses, problem))
        await trio.sleep(min(max(pause, LEAST_SECONDS), MOST_SECONDS))


class _NothingFound(Exception):
    """A lookup has failed; the text says why."""


class _Lookups:
    def __init__(self, target: DnsTarget) -> None:
        import dns.asyncbackend
        import dns.asyncresolver

        self._target = target
        self._backend = dns.asyncbackend.get_backend("trio")
        # What the system is configured for is no matter of ours where a server is named.
        self._resolver = dns.asyncresolver.Resolver(configure=target.server is None)
        if target.server is not None:
            self._resolver.nameservers = [target.server[0]]
            self._resolver.port = target.server[1]
        self._resolver.lifetime = LOOKUP_SECONDS
        self._ttl = MOST_SECONDS

    async def find(self) -> tuple[tuple[Address, ...], float]:
        """Return what the records say, and for how many seconds that holds."""
        self._ttl = MOST_SECONDS
        target = self._target
        found: list[Address] = []
        if target.port is None:
            name = target.name if target.name.startswith("_") else f"{SERVICE}.{target.name}"
            for record in await self._records(name, "SRV"):
                host = record.target.to_text(omit_final_dot=True)
                found += [Address(each, record.port) for each in await self._addresses(host)]
        if not found and not target.name.startswith("_"):
            hosts = await self._addresses(target.name)
            found = [Address(host, default_port(target)) for host in hosts]
        if not found:
            kinds = "SRV" if target.name.startswith("_") else "A or AAAA"
            raise _NothingFound(f"{target.name} has no {kinds} records that name an address")
        # Sorted: answers come in any order, and are no news then.
        unique = sorted(set(found), key=lambda address: (address.host, address.port))
        return tuple(unique[:MAX_FOUND]), self._ttl

    async def _addresses(self, host: str) -> list[str]:
        return [
            record.address for kind in ("A", "AAAA") for record in await self._records(host, kind)
        ]

    async def _records(self, name: str, kind: str) -> list[Any]:
        """Return the records of one kind; none if the name has none."""
        import dns.exception
        import dns.resolver

        try:
            answer = await self._resolver.resolve(name, kind, search=False, backend=self._backend)
        except (dns.resolver.NoAnswer, dns.resolver.NXDOMAIN):
            return []
        except dns.resolver.NoNameservers:
            raise _NothingFound(f"{name}: the name servers do not answer the question") from None
        except dns.exception.Timeout:
            raise _NothingFound(f"{name}: no name server answers in time") from None
        except (dns.exception.DNSException, OSError) as error:
            raise _NothingFound(f"{name}: {error}") from error
        assert answer.rrset is not None
        self._ttl = min(self._ttl, answer.rrset.ttl)
        return list(answer.rrset)[:MAX_FOUND]
