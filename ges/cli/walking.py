"""What the commands have in common that walk the ring and check what they find."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ges.cli.durations import NumberRange
from ges.cli.options import client_options, json_option, tell_waiting

if TYPE_CHECKING:
    from ges.operations.walk import Walk

PAUSE_SECONDS = 0.1  #: between two walks

Command = TypeVar("Command", bound=Callable[..., Any])
Judged = TypeVar("Judged")


def checking_options(fail_unless: str, right: str) -> Callable[[Command], Command]:
    """Return a decorator that adds ``--check``, ``--wait`` and ``--expect``, and where to ask.

    Args:
        fail_unless: what is checked, as the help has it.
        right: what is waited for.
    """

    def add(command: Command) -> Command:
        for option in (
            client_options,
            json_option,
            click.option(
                "--expect",
                type=click.IntRange(min=1),
                metavar="N",
                help="With --check: fail unless there are N brokers.",
            ),
            click.option(
                "--wait",
                type=NumberRange(min=0),
                default=0.0,
                metavar="SECONDS",
                help=f"With --check: go on checking for so long until {right}.",
            ),
            click.option("--check", is_flag=True, help=f"Fail unless {fail_unless}."),
        ):
            command = option(command)
        return command

    return add


def check_together(check: bool, wait: float, expect: int | None) -> None:
    """Refuse options that mean nothing without ``--check``."""
    if (wait or expect) and not check:
        raise click.UsageError("--wait and --expect go with --check")


async def walk_until(
    broker: str,
    wait: float,
    judge: Callable[[Walk, bool], Judged | None],
    *,
    identity: Path | None,
    overlay: str,
    timeout: float,
) -> Judged:
    """Walk the ring until what is found is right, or for so many seconds.

    Args:
        broker: where to begin.
        wait: seconds.
        judge: given a walk and whether it is the last, returns what is found; None: walk again.
        identity: to show.
        overlay: its name.
        timeout: seconds for one walk.
    """
    import trio

    from ges.errors import ConnectionLost
    from ges.operations.walk import walk_ring

    deadline = trio.current_time() + wait
    once = lru_cache(tell_waiting)
    while True:
        is_last = trio.current_time() >= deadline
        try:
            walk = await walk_ring(
                broker, identity=identity, overlay=overlay, timeout_s=timeout, on_waiting=once
            )
        except ConnectionLost:
            if is_last:
                raise
        else:
            found = judge(walk, is_last)
            if found is not None:
                return found
        await trio.sleep(PAUSE_SECONDS)
