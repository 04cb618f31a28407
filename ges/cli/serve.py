"""``chordal serve``: one broker, until it is told to stop."""

from __future__ import annotations

import gc
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ges.cli.durations import NumberRange, duration
from ges.cli.options import DIRECTORY, overlay_option, run_async
from overlay.address import DEFAULT_PORT, parse_endpoint
from overlay.limits import LIMITS, SPARE_FILES, Limits
from overlay.multigraph.relay_gain import DEFAULT_SHARE, MAX_SHARE
from overlay.queues.lanes import Policy
from ring.config import DEFAULT_BACKUPS, ChordStrategy, GapRule

if TYPE_CHECKING:
    import trio

    from ges.broker import Broker, BrokerConfig
    from ges.discovery.targets import LocalTarget

LOOPBACK = "127.0.0.1"


@click.command()
@click.option(
    "--listen",
    default=f"{LOOPBACK}:{DEFAULT_PORT}",
    envvar="CHORDAL_LISTEN",
    show_default=True,
    metavar="[HOST:]PORT",
    help="Address to listen on; a port alone is one on loopback, and 0 picks a free one.  "
    "[env: CHORDAL_LISTEN]",
)
@click.option(
    "--join",
    "seeds",
    multiple=True,
    envvar="CHORDAL_JOIN",
    metavar="URL|dns:NAME|mdns:|file:PATH,...",
    help="Brokers that form the ring, this one among them; give all of them the same list. Whoever "
    "is on a ring is joined; where nobody is, one of the list founds it. None: found a new ring. "
    "Instead of URLs, or beside them: records of a DNS name, brokers that announce themselves on "
    "the local network, a file of URLs; these are watched.  [env: CHORDAL_JOIN]",
)
@click.option(
    "--announce",
    flag_value="mdns:",
    is_flag=False,
    envvar="CHORDAL_ANNOUNCE",
    metavar="[mdns:ADDRESS]",
    help="Announce this broker on the local network, for --join mdns: of others; with an address, "
    "by that interface alone.  [env: CHORDAL_ANNOUNCE]",
)
@click.option(
    "--bootstrap",
    type=click.IntRange(min=1, max=1000),
    default=1,
    envvar="CHORDAL_BOOTSTRAP",
    show_default=True,
    metavar="N",
    help="Brokers of the --join list, this one included, that must be there before one of them "
    "founds a ring.  [env: CHORDAL_BOOTSTRAP]",
)
@click.option(
    "--advertise",
    envvar="CHORDAL_ADVERTISE",
    metavar="HOST[:PORT]",
    help="Address others are to use, if not the one listened on.  [env: CHORDAL_ADVERTISE]",
)
@click.option(
    "--data",
    "directory",
    type=DIRECTORY,
    envvar="CHORDAL_DATA",
    metavar="DIR",
    help="Keeps the broker's uid and its trace; none: a new broker each time.  [env: CHORDAL_DATA]",
)
@click.option(
    "--trace",
    type=DIRECTORY,
    metavar="DIR",
    help="Where to write the trace of incidents; default: trace/ in the data directory.",
)
@click.option(
    "--identity",
    type=DIRECTORY,
    envvar="CHORDAL_IDENTITY",
    metavar="DIR",
    help="A broker's identity, for secure links.  [env: CHORDAL_IDENTITY]",
)
@click.option(
    "--access",
    type=DIRECTORY,
    envvar="CHORDAL_ACCESS",
    metavar="FILE",
    help="Rules of who may publish and subscribe; none: everybody may.  [env: CHORDAL_ACCESS]",
)
@click.option(
    "--tokens",
    type=DIRECTORY,
    envvar="CHORDAL_TOKENS",
    metavar="FILE",
    help="Tokens of clients, see 'chordal token'.  [env: CHORDAL_TOKENS]",
)
@click.option(
    "--connection-rate",
    type=NumberRange(min=0, max=1e6),
    default=LIMITS.connections_per_second,
    envvar="CHORDAL_CONNECTION_RATE",
    show_default=True,
    metavar="N",
    help="New connections a second from one address, ten times as many at once; 0: no limit.  "
    "[env: CHORDAL_CONNECTION_RATE]",
)
@click.option(
    "--max-clients",
    type=click.IntRange(min=0, max=1_000_000),
    default=LIMITS.clients,
    envvar="CHORDAL_MAX_CLIENTS",
    show_default=True,
    metavar="N",
    help="Clients served at a time.  [env: CHORDAL_MAX_CLIENTS]",
)
@click.option(
    "--profile",
    default="lan",
    type=click.Choice(["local", "lan", "wan"]),
    envvar="CHORDAL_PROFILE",
    show_default=True,
    help="Timing of heartbeats and tests.  [env: CHORDAL_PROFILE]",
)
@click.option(
    "--chords",
    default=ChordStrategy.RANK.value,
    type=click.Choice([each.value for each in ChordStrategy]),
    envvar="CHORDAL_CHORDS",
    show_default=True,
    help="How links beyond right-right are chosen.  [env: CHORDAL_CHORDS]",
)
@click.option(
    "--gaps",
    default=GapRule.WIDEST.value,
    type=click.Choice([each.value for each in GapRule]),
    envvar="CHORDAL_GAPS",
    show_default=True,
    help="Which gap between two brokers a newcomer is offered.  [env: CHORDAL_GAPS]",
)
@click.option(
    "--backups",
    default=DEFAULT_BACKUPS,
    type=click.IntRange(1, 4),
    envvar="CHORDAL_BACKUPS",
    show_default=True,
    help="Ring neighbours that keep copies of what this broker owns.  [env: CHORDAL_BACKUPS]",
)
@click.option(
    "--express-range",
    default="5ms",
    type=duration,
    envvar="CHORDAL_EXPRESS_RANGE",
    show_default=True,
    metavar="TIME",
    help="Express links are those with at most this latency, one way; 0: none.  "
    "[env: CHORDAL_EXPRESS_RANGE]",
)
@click.option(
    "--relay-gain-share",
    type=NumberRange(min=0, max=MAX_SHARE),
    default=DEFAULT_SHARE,
    envvar="CHORDAL_RELAY_GAIN_SHARE",
    show_default=True,
    metavar="SHARE",
    help="Share of a link's cost that a path over other brokers must save to be taken instead.  "
    "[env: CHORDAL_RELAY_GAIN_SHARE]",
)
@click.option(
    "--relay-gain-time",
    default="1ms",
    type=duration,
    envvar="CHORDAL_RELAY_GAIN_TIME",
    show_default=True,
    metavar="TIME",
    help="Time that such a path must save as well.  [env: CHORDAL_RELAY_GAIN_TIME]",
)
@click.option(
    "--log-level",
    default="info",
    type=click.Choice(["debug", "info", "warning", "error"]),
    envvar="CHORDAL_LOG",
    show_default=True,
    help="Least severe messages to log, on stderr.  [env: CHORDAL_LOG]",
)
@click.option(
    "--express-budget",
    default="50ms",
    type=duration,
    envvar="CHORDAL_EXPRESS_BUDGET",
    show_default=True,
    metavar="TIME",
    help="Time an express event may take, if its publisher does not say.  "
    "[env: CHORDAL_EXPRESS_BUDGET]",
)
@click.option(
    "--slow-clients",
    default=Policy.DISCONNECT.value,
    type=click.Choice([each.value for each in Policy]),
    envvar="CHORDAL_SLOW_CLIENTS",
    show_default=True,
    help="What becomes of a client whose queue is full: cut it off, or drop its oldest normal "
    "events. Secure ones are never dropped, express ones always.  [env: CHORDAL_SLOW_CLIENTS]",
)
@click.option(
    "--grace",
    default="5s",
    type=duration,
    envvar="CHORDAL_GRACE",
    show_default=True,
    metavar="TIME",
    help="Time that clients have to go to other brokers when this one is to leave.  "
    "[env: CHORDAL_GRACE]",
)
@overlay_option
def serve(
    listen: str,
    seeds: tuple[str, ...],
    announce: str | None,
    bootstrap: int,
    advertise: str | None,
    directory: Path | None,
    trace: Path | None,
    identity: Path | None,
    access: Path | None,
    tokens: Path | None,
    connection_rate: float,
    max_clients: int,
    profile: str,
    chords: str,
    gaps: str,
    backups: int,
    express_range: float,
    relay_gain_share: float,
    relay_gain_time: float,
    log_level: str,
    express_budget: float,
    slow_clients: str,
    grace: float,
    overlay: str,
) -> None:
    """Start a broker. It joins the ring by itself and prints one line of JSON when it has.

    SIGTERM drains it: its clients go to other brokers, within --grace, then it leaves the ring and
    stops. A second one, or SIGINT, does not wait for clients. With --access or --tokens, SIGHUP
    makes it read those files again.
    """
    from ges.broker import BrokerConfig
    from ges.cli.logs import configure_logs
    from ges.discovery.targets import parse_join

    host, port = parse_endpoint(listen, default_host=LOOPBACK)
    urls, targets = parse_join(seeds)
    config = BrokerConfig(
        host=host,
        port=port,
        seeds=urls,
        targets=targets,
        announce=_announce(announce),
        bootstrap=bootstrap,
        overlay=overlay,
        profile=profile,
        chords=ChordStrategy(chords),
        gap_rule=GapRule(gaps),
        backups=backups,
        advertise=_parse_advertise(advertise),
        directory=directory,
        identity=identity,
        trace=trace,
        access=access,
        tokens=tokens,
        limits=_limits(connection_rate, max_clients),
        express_ms=1000 * express_range,
        relay_gain_share=relay_gain_share,
        relay_gain_ms=1000 * relay_gain_time,
        express_budget_ms=1000 * express_budget,
        slow_clients=Policy(slow_clients),
        grace_s=grace,
    )
    configure_logs(log_level)
    run_async(_serve, config)


def _limits(connection_rate: float, clients: int) -> Limits:
    """Raise the number of files this process may open as far as it may, and keep to it."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = replace(
        LIMITS,
        connections_per_second=connection_rate,
        connections_at_once=max(1, round(10 * connection_rate)),
        clients=clients,
    )
    wanted = limits.connections + limits.strangers + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):  # not allowed here: keep to what there is
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limits if soft == resource.RLIM_INFINITY else limits.within(soft)


def _announce(text: str | None) -> LocalTarget | None:
    from ges.discovery.targets import LocalTarget, parse_join

    if text is None:
        return None
    match parse_join([text]):
        case (), (LocalTarget() as target,):
            return target
    raise click.BadParameter("write mdns: or mdns:ADDRESS", param_hint="--announce")


def _parse_advertise(text: str | None) -> tuple[str, int | None] | None:
    if text is None:
        return None
    host, port = parse_endpoint(text, default_port=0)
    return host, port or None


async def _serve(config: BrokerConfig) -> None:
    import trio

    from ges.broker import Broker

    broker = Broker(config)
    # A hang-up ends a broker that has nothing to read again, as it ends any process.
    reloads = (signal.SIGHUP,) if config.access or config.tokens else ()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, *reloads) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_heed_signals, signals, broker)
            nursery.start_soon(_end_when_drained, broker, nursery.cancel_scope)
            await nursery.start(broker.run)
            _print_ready(broker)
            # What is there by now stays: collections that pass it over are short, and an event
            # that comes meanwhile waits less.
            gc.collect()
            gc.freeze()


async def _heed_signals(signals: AsyncIterator[int], broker: Broker) -> None:
    async for number in signals:
        if number == signal.SIGHUP:
            await broker.reload()
        elif number == signal.SIGTERM and not broker.is_draining:
            broker.drain()
        else:
            broker.hurry()
            broker.drain(0)


async def _end_when_drained(broker: Broker, scope: trio.CancelScope) -> None:
    await broker.drained()
    scope.cancel()


def _print_ready(broker: Broker) -> None:
    member = broker.node.ring.member
    assert member is not None
    line = {
        "ready": True,
        "url": broker.url,
        "secure_url": broker.secure_url,
        "ring_id": member.ring_id,
        "uid": member.uid,
    }
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # nobody reads it; the broker serves all the same
