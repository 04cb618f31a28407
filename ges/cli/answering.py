"""What ``chordal reply`` does with the requests that come."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence

import click
import trio

from ges.cli.options import tell
from ges.client import Client, Event, Subscription
from ges.errors import ResponderFailed
from ges.wire.events import MAX_PAYLOAD_BYTES
from overlay.errors import ChordalError
from overlay.wording import counted

READ_BYTES = 64 * 1024
FIXED_AT_ONCE = 64  #: fixed replies that wait for the broker to take them


class Answering:
    """Answers with a fixed payload, or with what a command prints."""

    def __init__(
        self,
        payload: bytes | None,
        command: Sequence[str],
        limit: float,
        jobs: int,
        count: int | None,
        *,
        as_json: bool,
    ) -> None:
        """Take how requests are answered.

        Args:
            payload: the reply to all; None: the command is asked.
            command: its words.
            limit: seconds for one run of it.
            jobs: how many commands run at the same time.
            count: requests to answer; None: without an end.
            as_json: print a line of JSON for each.
        """
        self._payload = payload
        self._command = command
        self._limit = limit
        self._jobs = trio.CapacityLimiter(jobs if payload is None else FIXED_AT_ONCE)
        self._left = count
        self._as_json = as_json
        self._unanswered = 0
        self._has_told = False  #: of events that are no requests

    async def run(self, client: Client, events: Subscription) -> None:
        """Answer until there were enough requests.

        Raises:
            ResponderFailed: some of them got no reply.
        """
        async with trio.open_nursery() as nursery:
            while self._left is None or self._left > 0:
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    break
                if not event.is_request:
                    if not self._has_told:
                        tell(f"chordal: an event on {event.topic} is no request", err=True)
                    self._has_told = True
                    continue
                if self._left is not None:
                    self._left -= 1
                token = object()
                await self._jobs.acquire_on_behalf_of(token)
                nursery.start_soon(self._answer, client, event, token)
        if self._unanswered:
            raise ResponderFailed(f"{counted(self._unanswered, 'request')} got no reply")

    async def _answer(self, client: Client, event: Event, token: object) -> None:
        try:
            reply, problem = self._payload, ""
            if reply is None:
                reply, problem = await self._asked(event)
            if reply is not None:
                try:
                    # Confirmed: a refusal is told of the request that it is about.
                    await client.reply(event, reply, confirm=True)
                except ChordalError as error:
                    problem = str(error)
        finally:
            self._jobs.release_on_behalf_of(token)
        if problem:
            self._unanswered += 1
            tell(f"chordal: no reply to a request on {event.topic}: {problem}", err=True)
        if self._as_json:
            row = {"topic": event.topic, "publisher": event.publisher, "problem": problem or None}
            click.echo(json.dumps(row))

    async def _asked(self, event: Event) -> tuple[bytes | None, str]:
        """Return what the command prints, or None and what is wrong."""
        environment = os.environ | {"CHORDAL_TOPIC": event.topic}
        try:
            process = await trio.lowlevel.open_process(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
        except OSError as error:
            return None, f"{self._command[0]}: {error.strerror}"
        found = bytearray()
        problem = f"the command took more than {self._limit:g} s"
        try:
            with trio.move_on_after(self._limit):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_feed, process, event.payload)
                    await _read(process, found)
                if len(found) > MAX_PAYLOAD_BYTES:
                    problem = f"the command printed more than {MAX_PAYLOAD_BYTES} bytes"
                elif code := await process.wait():
                    problem = f"the command failed with {code}"
                else:
                    problem = ""
        finally:
            if process.poll() is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        return (None, problem) if problem else (bytes(found), "")


async def _feed(process: trio.Process, payload: bytes) -> None:
    """Let it read the request; what it does not read is no fault."""
    assert process.stdin is not None
    try:
        async with process.stdin:
            await process.stdin.send_all(payload)
    except trio.BrokenResourceError:
        pass


async def _read(process: trio.Process, found: bytearray) -> None:
    """Read what it prints, as far as that fits into one reply."""
    assert process.stdout is not None
    async with process.stdout:
        while len(found) <= MAX_PAYLOAD_BYTES:
            data = await process.stdout.receive_some(READ_BYTES)
            if not data:
                return
            found += data
