"""What a broker can be set to, and the checks before it begins."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ges.access.admission import Admission
from ges.broker.data_directory import check_directory
from ges.broker.memory_budget import DEFAULT_BYTES, MIN_BYTES
from ges.discovery.targets import LocalTarget, Target
from ges.discovery.watching import require
from ges.topology.declared_links import parse_links
from ges.units.address import UNIT_LIMIT
from ges.units.entry_rules import parse_rules
from ges.units.planner import UnitsConfig
from ges.units.unit_names import UnitNames, parse_unit, written
from ges.wire.events import DEFAULT_BUDGET_US, MAX_BUDGET_US
from ges.wire.status import NAME_PATTERN
from ges.wire.unit_messages import SMALLEST_LIMIT
from overlay.address import Address, is_loopback
from overlay.errors import ConfigError
from overlay.ids import Nanos
from overlay.limits import Limits
from overlay.multigraph.express_range import DEFAULT_RANGE_NS, check_range
from overlay.queues.lanes import Policy
from overlay.security.identity import Identity, Role, load_identity
from overlay.security.keyfiles import REVOKED, read_revoked
from overlay.wire.greetings import MAX_NAME, check_overlay
from ring.config import DEFAULT_BACKUPS, ChordStrategy, GapRule, RingConfig, profile

LOOK_SECONDS = 2.0  #: between two looks at the identity's folder


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One broker's settings."""

    host: str = "127.0.0.1"
    port: int = 9470  #: 0: any free one
    seeds: tuple[Address, ...] = ()  #: none: found a new ring
    targets: tuple[Target, ...] = ()  #: name further seeds, which change
    announce: LocalTarget | None = None  #: this broker, on the local network
    bootstrap: int = 1  #: brokers of the list, this one included, before a ring is founded
    overlay: str = "chordal"  #: name of the overlay; brokers of others are refused
    name: str = ""  #: for people; empty: none
    profile: str = "lan"
    chords: ChordStrategy = ChordStrategy.RANK
    gap_rule: GapRule = GapRule.WIDEST
    backups: int = DEFAULT_BACKUPS  #: ring neighbours that keep copies of this broker's records
    unit_limit: int = UNIT_LIMIT  #: of brokers in a cluster, clusters in a super-cluster, ...
    unit: UnitNames = ()  #: names of the unit that it is to be in, from the top
    admit: tuple[str, ...] = ()  #: whom it lets into its cluster; none: everybody
    gateways: tuple[int, ...] = ()  #: that newcomers may make of it, by level; none: no limit
    declared: bool = False  #: events take those of its links alone that an end names
    event_links: tuple[str, ...] = ()  #: URLs of brokers, links to which are named here
    level_costs: bool = False  #: what is measured of links counts for no path
    advertise: tuple[str, int | None] | None = None  #: how others reach it; None: as it listens
    directory: Path | None = None  #: None: a new broker each time, and no trace
    identity: Path | None = None
    require_identity: bool = False  #: link only to brokers that show one of the same authority
    trace: Path | None = None  #: None: DIRECTORY/trace
    access: Path | None = None  #: rules for clients; None: everything is allowed
    tokens: Path | None = None  #: book of the tokens of clients; None: tokens are not looked at
    limits: Limits = field(default_factory=Limits)  #: on strangers and clients
    look_seconds: float = LOOK_SECONDS  #: between two looks at the identity's folder
    express_ms: float = DEFAULT_RANGE_NS / 1e6  #: express range, one way; 0: no express links
    memory: int = DEFAULT_BYTES  #: that others may make it hold, above what it takes idle
    drills: bool = False  #: it lets a drill break it
    has_process: bool = False  #: it is alone in its process, and can measure what memory it takes
    slow_clients: Policy = Policy.DISCONNECT  #: what becomes of normal events for them
    grace_s: float = 5.0  #: seconds that clients have to go to other brokers when this one leaves
    express_budget_ms: float = DEFAULT_BUDGET_US / 1e3  #: of events whose publisher names none
    logs_traces: bool = False  #: events that belong to a trace leave lines in the debug log

    def own_address(self, port: int) -> Address:
        """Return where others are to call a broker that listens at ``port``."""
        if self.advertise is None:
            return Address(self.host, port)
        return Address(self.advertise[0], self.advertise[1] or port)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What these settings do not do, though one could think so; for people."""
        if (self.access is None and self.tokens is None) or self.require_identity:
            return ()
        return (
            "rules and tokens bind clients alone: whoever reaches the port can link as a broker, "
            "and read and publish everything; close the ring with --require-identity",
        )

    @property
    def trace_directory(self) -> Path | None:
        """Where the trace goes; None: nowhere."""
        if self.trace is None and self.directory is not None:
            return self.directory / "trace"
        return self.trace


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedConfig:
    """Settings that were found usable, and what was read and reckoned on the way."""

    config: BrokerConfig
    identity: Identity | None
    admission: Admission
    ring: RingConfig
    express_range_ns: Nanos
    express_budget_us: int
    units: UnitsConfig


def check_config(config: BrokerConfig) -> CheckedConfig:
    """Check the settings, and read the files that they name.

    Raises:
        ConfigError: something the settings name is wrong or not usable.
    """
    identity = _identity(config)
    _check_memory(config)
    _check_addresses(config)
    _check_bootstrap(config)
    _check_extras(config)
    check_overlay(config.overlay)
    _check_name(config)
    checked = CheckedConfig(
        config=config,
        identity=identity,
        admission=Admission(config.access, config.tokens, time.time),
        express_range_ns=_range_ns(config),
        express_budget_us=_budget_us(config),
        ring=_ring(config),
        units=_units(config),
    )
    _check_revoked(config)
    return checked


def faults_of(config: BrokerConfig) -> list[ConfigError]:
    """Return all that is wrong with the settings and with the files they name; changes nothing."""
    found: list[ConfigError] = []
    checks: tuple[Callable[[BrokerConfig], object], ...] = (
        _identity,
        _check_memory,
        _check_addresses,
        _check_bootstrap,
        _check_extras,
        lambda config: check_overlay(config.overlay),
        _check_name,
        lambda config: Admission(config.access, None, time.time),
        lambda config: Admission(None, config.tokens, time.time),
        _range_ns,
        _budget_us,
        _ring,
        _units,
        _check_folders,
        _check_life,
        _check_revoked,
    )
    for check in checks:
        try:
            check(config)
        except ConfigError as error:
            found.append(error)
    return found


def _identity(config: BrokerConfig) -> Identity | None:
    if config.identity is None:
        if config.require_identity:
            raise ConfigError("--require-identity needs an identity; give --identity DIR")
        return None
    identity = load_identity(config.identity)
    if identity.role is not Role.BROKER:
        raise ConfigError(f"{config.identity} is a client's identity; issue one with --broker")
    return identity


def _check_extras(config: BrokerConfig) -> None:
    require((*config.targets, *filter(None, (config.announce,))))


def _check_memory(config: BrokerConfig) -> None:
    if config.memory < MIN_BYTES:
        raise ConfigError(f"--memory {config.memory} bytes is too little; give 16M or more")


def _range_ns(config: BrokerConfig) -> Nanos:
    return check_range(round(config.express_ms * 1e6))


def _units(config: BrokerConfig) -> UnitsConfig:
    if not SMALLEST_LIMIT <= config.unit_limit <= UNIT_LIMIT:
        raise ConfigError(
            f"a unit limit of {config.unit_limit}: give {SMALLEST_LIMIT} to {UNIT_LIMIT}"
        )
    names, entry = parse_unit(written(config.unit)), parse_rules(config.admit, config.gateways)
    return UnitsConfig(config.unit_limit, names=names, entry=entry)


def _ring(config: BrokerConfig) -> RingConfig:
    return replace(
        profile(config.profile),
        chords=config.chords,
        gap_rule=config.gap_rule,
        backups=config.backups,
    )


def _check_name(config: BrokerConfig) -> None:
    if config.name and not re.search(NAME_PATTERN, config.name):
        raise ConfigError(
            f"{config.name!r} cannot name a broker: 1 to {MAX_NAME} letters, digits, '.', '_' "
            "and '-', beginning with a letter or digit"
        )


def _check_folders(config: BrokerConfig) -> None:
    """Say whether what is to be written can be; nothing is made."""
    for folder in filter(None, (config.directory, config.trace_directory)):
        there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not there.is_dir():
            raise ConfigError(f"{folder}: {there} is a file; name a folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise ConfigError(f"{folder}: {there} cannot be written to; name another folder")


def _check_life(config: BrokerConfig) -> None:
    """Say whether the data directory is of this broker."""
    if config.directory is None:
        return
    try:
        identity = _identity(config)
    except ConfigError:
        identity = None  # that is told by itself
    check_directory(config.directory, certified_uid=identity.uid if identity else None)


def _check_revoked(config: BrokerConfig) -> None:
    if config.identity is not None:
        for folder in filter(None, (config.identity, config.directory)):
            read_revoked(folder / REVOKED)  # whom a damaged list names would be let in


def check_changes(config: BrokerConfig) -> None:
    """Check what a running broker is to take, but for the files: these are judged as they are read.

    Raises:
        ConfigError: something is wrong.
    """
    _check_addresses(config)
    _check_extras(config)


def _check_addresses(config: BrokerConfig) -> None:
    if config.host in ("0.0.0.0", "::") and config.advertise is None:
        raise ConfigError(
            f"--listen {config.host} is every address of this machine; "
            "say with --advertise HOST which one others are to use"
        )
    _check_announcement(config)
    own_url = config.own_address(config.port).url
    if own_url in parse_links(config.event_links):
        raise ConfigError(f"--event-links names {own_url}, which is this broker; leave it out")
    if config.identity is None:
        for seed in config.seeds:
            if seed.tls:
                raise ConfigError(f"joining by {seed.url} needs an identity; give --identity DIR")


def _check_announcement(config: BrokerConfig) -> None:
    if config.announce is None:
        return
    host, interface = config.own_address(config.port).host, config.announce.interface
    if is_loopback(host) and not (interface is not None and is_loopback(interface)):
        raise ConfigError(
            f"--announce would tell the network to call {host}, which is each machine's own; "
            "listen on an address of this machine, or name one with --advertise"
        )


def _check_bootstrap(config: BrokerConfig) -> None:
    if config.bootstrap == 1 or config.targets:
        return
    if not config.seeds:
        raise ConfigError(
            f"--bootstrap {config.bootstrap} waits for brokers of a list; name them with --join"
        )
    own = config.own_address(config.port)
    others = {(seed.host, seed.port) for seed in config.seeds} - {(own.host, own.port)}
    if config.bootstrap > len(others) + 1:
        raise ConfigError(
            f"--bootstrap {config.bootstrap} would wait for ever: with this broker --join names "
            f"{len(others) + 1}"
        )


def _budget_us(config: BrokerConfig) -> int:
    budget_us = round(config.express_budget_ms * 1000)
    if not 0 < budget_us <= MAX_BUDGET_US:
        raise ConfigError(
            f"an express budget of {config.express_budget_ms:g} ms; it is above 0, and under "
            "an hour"
        )
    return budget_us
