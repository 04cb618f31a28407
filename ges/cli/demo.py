"""``chordal demo``: the main job, end to end, on real processes, in about a minute."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ges.cli.options import DIRECTORY, json_option, run_async
from overlay.errors import ConfigError, MissingExtra
from overlay.wording import why_no_folder

if TYPE_CHECKING:
    from ges.demo.steps import Scale

MARK = ".chordal-demo"  #: a file that says: this folder is ours, and may be replaced
PARTS = ("data", "churn", "report")


@click.command()
@click.option("--quick", is_flag=True, help="Fewer events, smaller simulated rings.")
@click.option(
    "--out",
    type=DIRECTORY,
    default="demo-out",
    show_default=True,
    metavar="DIR",
    help="Where data and report go; those of an earlier demo are replaced.",
)
@json_option
def demo(quick: bool, out: Path, as_json: bool) -> int:
    """See the main job done, end to end, in about a minute.

    Brokers form a ring and carry normal and secure events to the broker that wants them. One of
    them is killed, and the ring repairs itself. Others form clusters. A minute in which brokers
    come and go while events flow is simulated, and rings of several sizes are, and Spark analyses
    how these recover. The steps and the commands that they run are told on stderr; the last line on
    stdout is the path of the report.
    """
    from ges.demo.steps import FULL, QUICK

    if find_spec("pyspark") is None or find_spec("hdrh") is None:
        raise MissingExtra(
            "the demo needs the extras analysis and bench; in a checkout: "
            "pip install '.[analysis,bench]'"
        )
    _prepare(out)
    findings = run_async(_demo, QUICK if quick else FULL, out.resolve())
    if isinstance(findings, signal.Signals):
        click.echo(f"stopped by {findings.name}; everything was cleaned up", err=True)
        return 128 + findings
    click.echo(json.dumps(findings) if as_json else findings["analysis"]["report"])
    return 0


def _prepare(out: Path) -> None:
    """Make ``out`` an empty folder of ours.

    Raises:
        ConfigError: It holds something else, or cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        there = {path.name for path in out.iterdir()}
        if there and (MARK not in there or there - {MARK, *PARTS}):
            raise ConfigError(f"{out} holds other things than a demo's results: name another --out")
        for part in there & set(PARTS):
            shutil.rmtree(out / part)
        (out / MARK).write_text("Made by 'chordal demo'; the next one replaces it.\n")
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be used: {why_no_folder(error)}") from error


async def _demo(scale: Scale, out: Path) -> dict[str, Any] | signal.Signals:
    """Run the demo; returns the signal instead if one ends it early."""
    import trio

    from ges.demo.progress import telling
    from ges.demo.steps import demonstrate

    findings: dict[str, Any] | None = None
    ended_by: list[int] = []

    async def watch(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        async for number in signals:
            ended_by.append(number)
            scope.cancel()

    with (
        trio.open_signal_receiver(*_ending_signals()) as signals,
        tempfile.TemporaryDirectory(prefix="chordal-demo-", ignore_cleanup_errors=True) as folder,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, signals, nursery.cancel_scope)
            with telling() as tell:
                findings = await demonstrate(Path(folder), scale, out, tell)
            nursery.cancel_scope.cancel()
    return findings or signal.Signals(ended_by[0])


def _ending_signals() -> tuple[signal.Signals, ...]:
    hangup = signal.SIGHUP
    wanted = () if signal.getsignal(hangup) is signal.SIG_IGN else (hangup,)  # nohup's wish
    return (signal.SIGINT, signal.SIGTERM, *wanted)
