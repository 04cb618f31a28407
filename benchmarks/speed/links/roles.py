"""One process of a measurement: ``python -m benchmarks.speed.links.roles SYSTEM ROLE ...``."""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

import trio

from benchmarks.speed.links import bare, broker, chordal
from benchmarks.speed.links.ends import Flow
from ges.cli.logs import configure_logs
from overlay.security.identity import load_identity


def main() -> None:
    """Be the one process that the command line names; what it has to say it prints as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.links.roles")
    parser.add_argument("system", choices=("bare", "naive", "links", "broker"))
    parser.add_argument("role", choices=("relay", "publish", "subscribe"))
    parser.add_argument("--at", default="")
    parser.add_argument("--events", type=int, default=0)
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--subscribers", type=int, default=1)
    parser.add_argument("--identity", type=Path)
    given = parser.parse_args()
    configure_logs("error")  # to stderr; without it they would stand among what is printed
    gc.collect()
    gc.freeze()  # what is there by now is not looked at again
    identity = load_identity(given.identity) if given.identity is not None else None
    flow = Flow(
        events=given.events, size=given.size, rate=given.rate, subscribers=given.subscribers
    )
    if given.role == "relay":
        relay = {"bare": bare.relay, "naive": bare.naive_relay, "links": chordal.relay}
        trio.run(relay[given.system], flow, identity)
    else:
        ends = {"bare": bare, "naive": bare, "links": chordal, "broker": broker}[given.system]
        run = ends.publish if given.role == "publish" else ends.subscribe
        at = given.at if given.system == "broker" else int(given.at)
        trio.run(run, at, flow, identity)


if __name__ == "__main__":
    main()
