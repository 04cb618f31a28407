"""The settings as a broker takes them."""

from __future__ import annotations

from dataclasses import replace

from ges.broker.config import BrokerConfig
from ges.discovery.targets import parse_announce, parse_join
from ges.settings.forms import LOOPBACK
from ges.settings.schema import LogLevel, Settings
from ges.units.unit_names import parse_unit
from overlay.address import parse_endpoint
from overlay.limits import LIMITS, SPARE_FILES
from overlay.limits import Limits as OverlayLimits

PART_OF_LINKS = 20  #: one source makes so many times fewer links than connections
BURST_SECONDS = 10  #: connections that one address may make at once, as seconds of its rate


def broker_config(settings: Settings, open_files: int | None = None) -> BrokerConfig:
    """Return what a broker is made from.

    ``open_files``: how many the process may have open; None: any number.

    Raises:
        ConfigError: these are too few for a broker.
    """
    host, port = parse_endpoint(settings.listen, default_host=LOOPBACK)
    limits = limits_of(settings)
    seeds, targets = parse_join(settings.join)
    return BrokerConfig(
        name=settings.name,
        host=host,
        port=port,
        seeds=seeds,
        targets=targets,
        announce=None if settings.announce is None else parse_announce(settings.announce),
        bootstrap=settings.bootstrap,
        overlay=settings.overlay,
        advertise=_advertise(settings.advertise),
        grace_s=settings.grace,
        drills=settings.drills,
        directory=settings.data,
        trace=settings.trace,
        identity=settings.security.identity,
        require_identity=settings.security.require_identity,
        access=settings.security.access,
        tokens=settings.security.tokens,
        limits=limits if open_files is None else limits.within(open_files),
        memory=settings.limits.memory,
        slow_clients=settings.limits.slow_clients,
        profile=settings.ring.profile,
        chords=settings.ring.chords,
        gap_rule=settings.ring.gaps,
        backups=settings.ring.backups,
        unit_limit=settings.ring.unit_limit,
        unit=parse_unit(settings.unit),
        admit=settings.units.admit,
        gateways=settings.units.gateways,
        declared=settings.links.events == "declared",
        event_links=settings.links.event_links,
        level_costs=settings.links.costs == "levels",
        express_ms=1000 * settings.express.range,
        express_budget_ms=1000 * settings.express.budget,
        logs_traces=settings.log.level is LogLevel.DEBUG,
    )


def limits_of(settings: Settings) -> OverlayLimits:
    """Return the limits, wherever there are files enough for them."""
    given = settings.limits
    return replace(
        LIMITS,
        handshake_seconds=given.handshake_time,
        strangers=given.strangers,
        strangers_per_host=max(1, given.strangers // 2),
        connections=given.connections,
        links=given.links,
        connections_per_second=given.connection_rate,
        links_per_second=given.connection_rate / PART_OF_LINKS,
        connections_at_once=max(1, round(BURST_SECONDS * given.connection_rate)),
        clients=given.clients,
        clients_of_one=given.clients_of_one,
        links_of_one=given.links_of_one,
        subscriptions=given.subscriptions,
        subscription_bytes_total=given.subscription_memory,
        subscription_changes_per_second=given.subscription_rate,
        client_bytes_total=given.client_memory,
        link_bytes_total=given.link_memory,
        client_silence_seconds=given.client_silence,
        payload_bytes=given.payload,
        retained=given.retained,
    )


def wanted_files(settings: Settings) -> int:
    """Return how many files a broker with these limits may have open."""
    return settings.limits.connections + settings.limits.strangers + SPARE_FILES


def _advertise(text: str | None) -> tuple[str, int | None] | None:
    if text is None:
        return None
    host, port = parse_endpoint(text, default_port=0)
    return host, port or None
