"""What a client waits for: room, answers and confirmations. On any event loop.

A face of the client on one event loop adds to this how it finds a broker and holds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sized
from random import Random

from ges.client.core import ClientConnection, ClientCore
from ges.client.hang_ups import HangUps
from ges.client.loop import Loop
from ges.client.outgoing import OutgoingStream
from ges.client.requests import Replies
from ges.client.state import ClientState
from ges.client.subscription import Subscription, why_refused
from ges.client.wish import Wish
from ges.errors import SubscribeRefused
from ges.wire.broker_messages import RevocationNotice
from ges.wire.client_messages import KeepAlive, StatusRequest
from ges.wire.drill_messages import Drilled, Question
from ges.wire.operator_messages import (
    ClientList,
    ClientsRequest,
    Drain,
    Kick,
    Operated,
    UnitJoin,
    UnitJoining,
    UnitJoinQuestion,
)
from ges.wire.status import Status
from ges.wire.why import Why, WhyRequest
from ges.wire.why_event import WhyEvent, WhyEventRequest
from overlay.ids import LinkClass
from overlay.machine import Message

KEPT_BYTES = 8 * 1024 * 1024  #: of events of one class that no broker has confirmed
SEND_SECONDS = 10.0  #: at the end of the client's block, for what is queued
SENT_LOOK_SECONDS = 0.002  #: between two looks whether all has left


class Waiting(ABC):
    """A client's core, and those that wait for it."""

    def __init__(self, wish: Wish, core: ClientCore, loop: Loop, rng: Random) -> None:
        self.wish = wish
        self._hang_ups = HangUps(wish.timeout, rng, wish.on_waiting)
        self.core = core
        self.loop = loop
        self._changed = loop.event()  #: set, and replaced, when something waited for may be so
        self._asked: object = None  #: for the confirmation of what, and over which connection
        core.on_change = self._signal

    @property
    def state(self) -> ClientState:
        """What the client knows of its broker."""
        return self.core.state

    def send(self, item: bytes) -> None:
        """Queue a whole frame for the broker; without one it is dropped."""
        self.core.send(item)

    def pause_after_loss(self, since: float, now: float) -> float:
        """Return the seconds to pause now that a broker is lost that had taken us at ``since``.

        Raises:
            ConnectionLost: for too long now brokers take us, and hang up before they answer.
        """
        has_answered = self.core.has_answered
        return self._hang_ups.lost(
            self.state.lost_url, has_answered=has_answered, since=since, now=now
        )

    # ── publishing ────────────────────────────────────────────────────────────────────────────

    async def turn(self, stream: OutgoingStream) -> ClientConnection:
        """Let others have their turn, and wait until there is room for what is published.

        Raises:
            ClientClosed: the client's block has ended.
            ConnectionLost: no broker was found in time.
        """
        self.core.check_open()
        await self.loop.let_others()
        while stream.kept_bytes > KEPT_BYTES:  # more than can be sent again
            self._ask_for_confirmation()
            await self._change()
        return await self._room()

    async def _room(self) -> ClientConnection:
        """Wait until something can be sent, and return over what."""
        while True:
            connection = self.core.connection
            if connection is not None and not connection.crowded:
                return connection
            if connection is not None:
                await connection.room()
                if self.core.connection is not connection:
                    continue
            else:
                await self._change()

    async def confirmed(self) -> None:
        """Wait until all that was published is taken, or raise what became of it."""
        self.core.check_open()
        self.core.run_of_events.close()
        while not self.state.is_confirmed():
            self._ask_for_confirmation()
            await self._change()

    def _ask_for_confirmation(self) -> None:
        """Let the broker confirm at once what has been published, and not only before long."""
        published = tuple(stream.sequence for stream in self.state.outgoing.values())
        question = (self.core.connection, published)
        if self._asked != question:
            self._asked = question
            self.core.tell(KeepAlive(0, answer=False))

    async def finish(self) -> None:
        """The client's block ends: let all that is queued get to the broker, and close.

        A connection that is closed while it has brought something that nobody has read is broken
        off by the system, with all that has not got to the other end. So this end says first that
        nothing more comes, and the broker closes when it has read all.
        """
        core = self.core
        connection = core.connection or core.leaving
        while connection is not None and connection in (core.connection, core.leaving):
            if not connection.queued_bytes:
                self.core.close()
                if not self.state.is_settled:
                    await self.part()
                return
            await self.loop.sleep(SENT_LOOK_SECONDS)

    @abstractmethod
    async def part(self) -> None:
        """Say to the broker that nothing more comes, and wait until it has closed its end."""

    # ── asking ────────────────────────────────────────────────────────────────────────────────

    async def subscribe(self, subscription: Subscription) -> str | None:
        """Subscribe here and wherever we are attached later; returns why not, or None."""
        if subscription.ask.only is LinkClass.SECURE and not self.state.secure:
            # Not even the filter may go over a plain hop.
            return "the hop to the broker is not secure; attach over chordals:// with an identity"
        self.core.subscribe(subscription)
        number = subscription.number
        is_served = False
        try:
            while not self.state.is_decided(number):
                await self._change()
            self.core.check()
            reason = self.state.settle(number)
            is_served = reason is None
        finally:
            if not is_served:
                self.core.forget(subscription)
        return reason

    async def hear_replies(self, replies: Replies) -> None:
        """Have a subscription for replies served, if it is not; one task asks for all that wait.

        Raises:
            SubscribeRefused: the broker does not serve it, and why.
        """
        while not replies.is_served:
            if replies.is_begun:
                await self._change()
                continue
            replies.is_begun = True
            try:
                reason = await self.subscribe(replies)
            finally:
                replies.is_begun = False
                self._signal()
            if reason is not None:
                raise SubscribeRefused(why_refused(replies.filter, reason))
            replies.is_served = True

    async def spread(self, notice: RevocationNotice) -> str | None:
        """Hand the broker a list of revoked identities; returns why it is not taken, or None."""
        taken = self.state.taken
        taken.clear()
        await self._ask(notice, taken)
        return taken.pop().problem

    async def status(self) -> Status:
        """Ask the broker about itself, and the next one if it is lost before it answers."""
        statuses = self.state.statuses
        statuses.clear()
        await self._ask(StatusRequest(), statuses)
        return statuses.pop()

    async def why(self, question: WhyRequest | WhyEventRequest) -> Why | WhyEvent:
        """Ask the broker about an event, and the next one if it is lost before it answers."""
        explanations = self.state.explanations
        explanations.clear()
        await self._ask(question, explanations)
        return explanations.pop()

    async def operate(
        self, question: ClientsRequest | Kick | Drain | Question | UnitJoin | UnitJoinQuestion
    ) -> ClientList | Operated | Drilled | UnitJoining:
        """Ask the broker as an operator."""
        operated = self.state.operated
        operated.clear()
        await self._ask(question, operated)
        return operated.pop()

    async def _ask(self, question: Message, answers: Sized) -> None:
        """Ask the broker, and each one after it, until there is an answer."""
        while not answers:
            await self._room()
            connection = self.core.connection
            self.core.tell(question)
            while not answers and self.core.connection is connection:
                await self._change()

    async def _change(self) -> None:
        """Wait until something waited for may be so.

        Raises:
            ClientClosed: the client's block has ended.
            ConnectionLost: no broker was found in time.
        """
        self.core.check()
        await self._changed.wait()
        self.core.check()

    def _signal(self) -> None:
        self._changed.set()
        self._changed = self.loop.event()
