"""``chordal serve``: one broker, until it is told to stop."""

from __future__ import annotations

import gc
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ges.cli.durations import duration
from ges.cli.options import DIRECTORY, overlay_option, run_async
from overlay.address import DEFAULT_PORT, parse_endpoint, parse_urls
from overlay.lanes import Policy

if TYPE_CHECKING:
    import trio

    from ges.broker import Broker, BrokerConfig


@click.command()
@click.option(
    "--listen",
    default=f"127.0.0.1:{DEFAULT_PORT}",
    envvar="CHORDAL_LISTEN",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on; port 0 picks a free one.  [env: CHORDAL_LISTEN]",
)
@click.option(
    "--join",
    "seeds",
    multiple=True,
    envvar="CHORDAL_JOIN",
    metavar="URL[,URL...]",
    help="Brokers of the ring to join; none: found a new ring.  [env: CHORDAL_JOIN]",
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
    "--profile",
    default="lan",
    type=click.Choice(["local", "lan", "wan"]),
    envvar="CHORDAL_PROFILE",
    show_default=True,
    help="Timing of heartbeats and tests.  [env: CHORDAL_PROFILE]",
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
@overlay_option
def serve(
    listen: str,
    seeds: tuple[str, ...],
    advertise: str | None,
    directory: Path | None,
    trace: Path | None,
    identity: Path | None,
    profile: str,
    express_range: float,
    log_level: str,
    express_budget: float,
    slow_clients: str,
    overlay: str,
) -> None:
    """Start a broker. It joins the ring by itself and prints one line of JSON when it has.

    SIGTERM and SIGINT make it leave the ring and stop.
    """
    from ges.broker import BrokerConfig
    from ges.cli.logs import configure_logs

    configure_logs(log_level)
    host, port = parse_endpoint(listen)
    config = BrokerConfig(
        host=host,
        port=port,
        seeds=tuple(parse_urls(list(seeds))),
        overlay=overlay,
        profile=profile,
        advertise=_parse_advertise(advertise),
        directory=directory,
        identity=identity,
        trace=trace,
        express_ms=1000 * express_range,
        express_budget_ms=1000 * express_budget,
        slow_clients=Policy(slow_clients),
    )
    run_async(_serve, config)


def _parse_advertise(text: str | None) -> tuple[str, int | None] | None:
    if text is None:
        return None
    host, port = parse_endpoint(text, default_port=0)
    return host, port or None


async def _serve(config: BrokerConfig) -> None:
    import trio

    from ges.broker import Broker

    broker = Broker(config)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_on_signal, signals, broker, nursery.cancel_scope)
            await nursery.start(broker.run)
            _print_ready(broker)
            # What is there by now stays: collections that pass it over are short, and an event
            # that comes meanwhile waits less.
            gc.collect()
            gc.freeze()


async def _stop_on_signal(
    signals: AsyncIterator[int], broker: Broker, scope: trio.CancelScope
) -> None:
    async for _ in signals:
        await broker.leave()
        scope.cancel()
        return


def _print_ready(broker: Broker) -> None:
    member = broker.node.ring.member
    assert member is not None
    line = {
        "ready": True,
        "url": broker.url,
        "secure_url": broker.secure_url,
        "admin": None,
        "ring_id": member.ring_id,
        "uid": member.uid,
    }
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # nobody reads it; the broker serves all the same
