"""Reads what clients send, each client in a task of its own, at the pace the broker can take."""

from __future__ import annotations

import math
from functools import partial

import trio

from ges.sessions.backpressure import Backpressure, Looking
from ges.sessions.change_pace import ChangePace
from ges.sessions.intake import Intake
from ges.sessions.on_ring import OnRing
from ges.sessions.replies import Replies
from ges.sessions.session import Session
from ges.wire.client_messages import KeepAlive
from ges.wire.event_flags import EXPRESS_FLAG
from ges.wire.events import FLAGS_AT
from overlay.driver import Driver
from overlay.errors import ProtocolError
from overlay.ids import NANOS_PER_SECOND
from overlay.limits import Limits
from overlay.net.connection import BROKEN, Connection
from overlay.net.slices import Sliced
from overlay.queues.pace import Allowance
from overlay.wire.codec import FrameReader, FrameRun
from overlay.wire.frames import EVENT, HEADER

JOIN_PATIENCE_SECONDS = 2.0  #: for which what clients publish waits for the broker to join
ALIVE_SECONDS = 0.4  #: between two signs of life to a client that is not read for a while
EXPRESS_BYTES = 16 * 1024  #: a client with more in one read is none that goes first


class ClientReader:
    """Hands what clients send to the intake, and cuts off who sends nothing, or half a frame."""

    def __init__(
        self,
        driver: Driver,
        intake: Intake,
        replies: Replies,
        on_ring: OnRing,
        backpressure: Backpressure,
        *,
        limits: Limits,
        memory_limit: Looking,
    ) -> None:
        """``memory_limit``: on what all clients hold together."""
        self._driver = driver
        self._intake = intake
        self._replies = replies
        self._on_ring = on_ring
        self._backpressure = backpressure
        self._limits = limits
        self._memory_limit = memory_limit

    async def read(self, session: Session, connection: Connection, reader: FrameReader) -> None:
        """Take what a client sends until it goes, falls silent or breaks the protocol."""
        precedence = self._driver.precedence
        fileno = connection.fileno
        is_express = False
        unfinished = _Unfinished(reader, self._limits.frame_seconds)
        silence = _Silence(self._limits.client_silence_seconds)
        connection.on_part = silence.heard
        pace = ChangePace(self._limits)
        allowance = Allowance()
        try:
            with silence.scope:
                chunk: bytes | bytearray = b"-"
                while chunk:
                    runs = reader.runs()
                    if not self._on_ring.is_set():
                        silence.pause()
                    await self.wait_for_ring(runs)
                    events = [run for run in runs if run.kind == EVENT]
                    if events:  # else it is as it was
                        is_express = _are_express(events)
                    if is_express:
                        precedence.enter(fileno)
                    else:
                        precedence.leave(fileno)
                        await precedence.give_way()
                    first = None if is_express else precedence
                    work = Sliced(self._intake.steps(session, runs), first)
                    await work.finish(self._driver.turn, partial(self._replies.settle, session))
                    await self._backpressure.relieve(allowance)
                    if session.changes and (wait := self._wait_seconds(session, pace)):
                        precedence.leave(fileno)
                        silence.pause()
                        await self._hold_back(session, wait)
                        unfinished.forgive()
                    if reader.has_begun:
                        self._memory_limit.look()
                    unfinished.look(has_finished=bool(runs))
                    silence.heard()
                    chunk = await connection.receive(reader.appetite)
                    reader.feed(chunk)
            if silence.scope.cancelled_caught:
                self._driver.counted_log.note(
                    "clients_silent", "client silent, given up", **session.who
                )
        except ProtocolError as error:
            self._driver.counted_log.note(
                "protocol_errors", "protocol error", why=str(error), **session.who
            )
        except BROKEN:
            pass
        finally:
            precedence.leave(fileno)

    def _wait_seconds(self, session: Session, pace: ChangePace) -> float:
        changes, session.changes = session.changes, 0
        return pace.wait_ns(changes, self._driver.now()) / NANOS_PER_SECOND

    async def _hold_back(self, session: Session, seconds: float) -> None:
        """Do not read a client for a while, as it changes its subscriptions too fast.

        Its questions are not read, either: the broker asks for its part, lest it be left as silent.
        """
        self._driver.counted_log.note("subscriptions_too_fast", "client slowed down", **session.who)
        with trio.move_on_after(seconds):
            while True:
                session.tell(KeepAlive(0, answer=False))
                await trio.sleep(ALIVE_SECONDS)

    async def wait_for_ring(self, runs: list[FrameRun]) -> None:
        """Let what needs it wait until this broker is a member; questions are answered at once.

        A publisher is told after a while that it is none yet. A subscriber is not answered before:
        it would miss what is published elsewhere. No checkpoint where the broker is a member: what
        a reader holds in its hands the kernel no longer knows of, and were others to have their
        turn now, :mod:`overlay.net.precedence` could not tell them that something express has come.
        """
        if self._on_ring.is_set():
            return
        if self._intake.has_subscription(runs):
            await self._on_ring.wait()
        elif any(run.kind == EVENT for run in runs):
            with trio.move_on_after(JOIN_PATIENCE_SECONDS):
                await self._on_ring.wait()


class _Silence:
    """Ends the reading of a client that sends nothing for too long.

    To move a deadline costs as much as to handle some events, so it is moved now and then: a client
    is given up after the limit, or up to a quarter of it later.
    """

    def __init__(self, limit_seconds: float) -> None:
        self.scope = trio.CancelScope()
        self._limit = limit_seconds

    def heard(self) -> None:
        """The client may send nothing for so long from now on."""
        now = trio.current_time()
        if not now + self._limit <= self.scope.deadline < math.inf:
            self.scope.deadline = now + 1.25 * self._limit

    def pause(self) -> None:
        """It is not read for a while, and cannot be heard."""
        self.scope.deadline = math.inf


class _Unfinished:
    """Since when a client owes the rest of a frame: others may come between the slices of one."""

    def __init__(self, reader: FrameReader, limit_seconds: float) -> None:
        self._reader = reader
        self._limit = limit_seconds
        self._since = self._sliced_since = trio.current_time()
        self._number = 0  #: of the frame in slices

    def forgive(self) -> None:
        """It was not read for a while, and could not finish anything."""
        self._since = self._sliced_since = trio.current_time()

    def look(self, *, has_finished: bool) -> None:
        """Look after each read; ``has_finished``: it has brought the end of a frame.

        Raises:
            ProtocolError: the rest of a frame takes too long.
        """
        now, number = trio.current_time(), self._reader.in_slices
        if has_finished or not self._reader.has_begun:
            self._since = now
        if number != self._number or not number:
            self._number, self._sliced_since = number, now
        if now - min(self._since, self._sliced_since) > self._limit:
            raise ProtocolError(f"a frame not finished in {self._limit:g} s")


def _are_express(events: list[FrameRun]) -> bool:
    """Say whether a client's events go first: it sends express ones, and hardly any others."""
    first = events[0].bounds[0] + HEADER.size + FLAGS_AT
    size = sum(run.bounds[-1] - run.bounds[0] for run in events)
    has_flags = first < events[0].bounds[1]  # an empty frame is judged where events are read
    return has_flags and size <= EXPRESS_BYTES and bool(events[0].data[first] & EXPRESS_FLAG)
