"""Whom a broker lets into its cluster, and how many gateways newcomers may make of it.

For example, ``admit = ["10.1.0.0/16", "uid:7f..."]`` lets brokers in that others call at such an
address, and the one broker with that uid; ``gateways = [64, 16, 8, 8]`` means that this broker
takes no newcomer beside it that would be its 9th link to another super-super-cluster (*Grid Event
Service protocols*, section 3.1). Both are about newcomers alone: the ring makes the links that it
needs, and nobody is put out who is in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from overlay.address import parse_url
from overlay.errors import ConfigError
from overlay.ids import Peer, short
from overlay.wording import counted, printable

LEVELS = 4  #: of gateways: 0 to other brokers of the cluster, 1 to other clusters, and so on
MAX_ENTRIES = 1024  #: of addresses and uids that are let in
MOST = 64  #: gateways of one level

_UID = re.compile(r"uid:([0-9a-f]{32})")
_EXAMPLES = (
    "such as 10.1.0.0/16, or a uid of an identity, uid: and 32 lower-case hexadecimal digits"
)

Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class EntryRules:
    """The rules of one broker for newcomers; without any everybody may come in."""

    admit: tuple[str, ...] = ()  #: as written; none: everybody
    networks: tuple[Network, ...] = ()
    uids: frozenset[str] = frozenset()
    gateways: tuple[int, ...] = ()  #: by level, 0 first; none: no limit

    def why_not(self, peer: Peer) -> str | None:
        """Return why a broker is not to come into the cluster; None: it may."""
        if not self.admit or peer.uid in self.uids:
            return None
        host = parse_url(peer.url).host
        address = _address(host)
        if address is not None and any(address in network for network in self.networks):
            return None
        return f"it does not admit {short(peer.uid)} at {host}"

    def is_at_threshold(self, level: int, links: Mapping[int, int]) -> bool:
        """Say whether one more gateway of a level is too much; ``links``: how many there are."""
        return bool(self.gateways) and links.get(level, 0) >= self.gateways[level]


EVERYBODY = EntryRules()


def parse_rules(admit: Iterable[str], gateways: Iterable[int] = ()) -> EntryRules:
    """Return the rules for newcomers.

    Raises:
        ConfigError: something is no address range or uid, or there are not four thresholds.
    """
    written, limits = tuple(admit), tuple(gateways)
    if len(written) > MAX_ENTRIES:
        raise ConfigError(f"{len(written)} address ranges and uids; give {MAX_ENTRIES} at most")
    if limits and (len(limits) != LEVELS or not all(1 <= each <= MOST for each in limits)):
        raise ConfigError(
            f"{', '.join(map(str, limits))} cannot limit gateways: give "
            f"{counted(LEVELS, 'number')} from 1 to {MOST}, one for each level, such as 64,16,8,8"
        )
    uids = frozenset(found[1] for each in written if (found := _UID.fullmatch(each)))
    networks = tuple(_network(each) for each in written if not _UID.fullmatch(each))
    return EntryRules(written, networks, uids, limits)


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        shown = printable(repr(text[:100]))
        why = f" ({error})" if "host bits" in str(error) else ""
        raise ConfigError(f"{shown} is no range of addresses{why}; give one {_EXAMPLES}") from None


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return a host as an address; None: it is a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
