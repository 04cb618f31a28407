"""What the commands have in common that walk the ring and check what they find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ges.cli.connection import Connection
from ges.cli.durations import NumberRange
from ges.cli.options import client_options, json_option

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
    connection: Connection, wait: float, judge: Callable[[Walk, bool], Judged | None]
) -> Judged:
    """Walk the ring until what is found is right, or for so many seconds.

    Args:
        connection: where to begin.
        wait: seconds.
        judge: given a walk and whether it is the last, returns what is found; None: walk again.
    """
    import trio

    from ges.errors import ConnectionLost

    deadline = trio.current_time() + wait
    once = replace(connection, on_waiting=lru_cache(connection.on_waiting))
    while True:
        is_last = trio.current_time() >= deadline
        try:
            walk = await once.walk()
        except ConnectionLost:
            if is_last:
                raise
        else:
            found = judge(walk, is_last)
            if found is not None:
                return found
        await trio.sleep(PAUSE_SECONDS)
