"""The client itself, the same on every event loop.

::

    async with connect("chordal://127.0.0.1:9470") as client:
        async with client.subscribe("sensors/#") as events:
            await client.publish("sensors/7", b"21.5")
            async for event in events:
                print(event.topic, event.payload)

A client is attached to one broker at a time and learns others from it. When its broker dies or
falls silent it attaches to another with all its subscriptions. What it has published itself and no
broker has confirmed it publishes again there, and each event still comes once. What others have
published in between it gets there, as brokers keep the events of the last seconds in memory; if it
had no broker for longer it may miss some, and :attr:`Client.gaps` says how long that was. It says
so, too, of each time in which the broker itself was off the ring, or held for dead.

A payload is bytes. Text has to be encoded, and the reader decodes it::

    await client.publish("sensors/7", "21.5 °C".encode())
    print(event.payload.decode())

A client is good for the block of its ``async with`` and no longer. ``connect`` is
:func:`ges.client.connect` under trio, and :func:`ges.client.aio.connect` under asyncio.

Like the broker, the client handles events by the batch. ``async for`` yields to other tasks once a
batch, not once an event, and ``publish`` once in a while.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from secrets import token_bytes
from time import time_ns

from ges.client.choices import checked_question, link_class_of
from ges.client.core import ClientConnection
from ges.client.gaps import Gap
from ges.client.open_run import TURN_BYTES
from ges.client.outgoing import MAX_KNOWN_TOPICS, OutgoingStream
from ges.client.requests import Replies
from ges.client.subscription import Subscription, why_refused
from ges.client.waiting import Waiting
from ges.errors import (
    OperationRefused,
    PublishRefused,
    RequestTimedOut,
    SpreadRefused,
    SubscribeRefused,
)
from ges.matching.asks import ask_for
from ges.wire.attributes import Attributes, pack_attributes
from ges.wire.broker_messages import RevocationNotice
from ges.wire.delivered import Event
from ges.wire.drill_messages import Drilled, Question
from ges.wire.events import (
    MAX_BUDGET_US,
    MAX_PAYLOAD_BYTES,
    SPENT_AT,
    Options,
    checked_options,
)
from ges.wire.names import check_name, name_filter
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
from ges.wire.realms import realm_named
from ges.wire.status import Status
from ges.wire.topics import check_filter, check_queue, check_topic
from ges.wire.trace_context import traced
from ges.wire.why import Why, WhyRequest
from ges.wire.why_event import WhyEvent, WhyEventRequest
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from overlay.security.revocation import RevocationList
from overlay.wire.frames import HEADER as FRAME_HEADER
from overlay.wording import printable

NORMAL, EXPRESS = LinkClass.NORMAL, LinkClass.EXPRESS

MAX_PARK_SECONDS = 3600.0
REQUEST_SECONDS = 5.0  #: a reply is waited for, unless told otherwise


class Client:
    """An attached client; made by :func:`ges.client.connect`."""

    def __init__(self, attachment: Waiting) -> None:
        core = attachment.core
        self._attachment = attachment
        self._core = core
        self._state = core.state
        self._number = 0
        self._normal = self._state.outgoing[LinkClass.NORMAL]
        self._secure = self._state.outgoing[LinkClass.SECURE]
        self._express = self._state.outgoing[LinkClass.EXPRESS]
        self._run = core.run_of_events
        self._replies: Replies | None = None  #: made when it asks for the first time
        self._topics: dict[str, bytes] = {}  #: checked, and as they go over the wire
        self.uid = attachment.wish.uid

    @property
    def gaps(self) -> list[Gap]:
        """Times in which events may have been missed, oldest first."""
        return self._core.gaps.noted

    @property
    def broker_url(self) -> str:
        """URL of the broker attached to, or last attached to."""
        return self._state.url

    @property
    def secure(self) -> bool:
        """Whether the hop to the broker is TLS."""
        return self._state.secure

    @property
    def alternates(self) -> tuple[str, ...]:
        """URLs of other brokers, as learnt from the one attached to."""
        return self._state.alternates

    @property
    def dropped(self) -> tuple[int, int]:
        """Normal and express events that the broker dropped, as this client takes them too slowly.

        Since it was attached; the broker tells within a second or so.
        """
        return self._state.dropped.normal, self._state.dropped.express

    @property
    def unreadable(self) -> int:
        """Events that came and make no sense, as their attributes are no text, say; none is seen.

        No broker lets them in, but those of earlier versions.
        """
        return self._core.unreadable

    async def publish(
        self,
        topic: str,
        payload: bytes = b"",
        *,
        attributes: Attributes | None = None,
        link_class: LinkClass = LinkClass.NORMAL,
        confirm: bool = False,
        park: float = 0.0,
        budget: float | None = None,
        max_hops: int | None = None,
        priority: int = 0,
        correlation: bytes = b"",
        retain: bool = False,
        ttl: float | None = None,
        traceparent: str | None = None,
        realm: str = "all",
        to: str | Sequence[str] = (),
    ) -> None:
        """Publish an event; returns when it is queued, or, with ``confirm``, taken by the broker.

        Without ``confirm`` a refusal is raised by a later ``publish`` or by :meth:`flush`.
        ``budget``: seconds an express event may be under way before it counts as late; None: as
        the broker is configured.

        A secure event that finds no all-secure path is refused at once, or, with ``park``, held in
        the broker's memory for so many seconds, and sent when such a path appears; if none does,
        the refusal says so. Parked events stay in order, and are dropped if this client goes.

        ``retain``: brokers keep it as the last value of its topic, and later subscribers get it
        first; an empty payload clears the value. ``ttl``: seconds after which it is delivered to
        nobody any more, and is no last value; ``max_hops``: so many hops between brokers it may
        take. ``traceparent``: the trace that the event belongs to, as W3C Trace Context names it.
        ``realm``: how far it goes, ``cluster``, ``super-cluster``, ``super-super-cluster`` or
        ``all``. ``to``: names of clients, up to 64 (:meth:`inbox`): it is for these alone, wherever
        they are, and whatever others have subscribed to.

        ``link_class`` may be given by its name, too.

        Raises:
            TopicError: the topic is malformed.
            TraceparentError: ``traceparent`` is none.
            ConfigError: the payload is not bytes (text has to be encoded); payload or attributes
                are too large; an attribute is of no type that there is; the budget is no such time;
                ``ttl``, ``max_hops``, ``priority``, ``correlation``, ``realm`` or ``link_class`` is
                none; ``retain`` or ``ttl`` are asked for an express event; or ``park`` is negative,
                more than MAX_PARK_SECONDS, or asked for an event that is not secure.
            ClientClosed: the client's block has ended.
            PublishRefused: the broker refused this event or an earlier one; nobody got it. So it
                does where one of the names in ``to`` is that of no client.
            ConnectionLost: no broker was found in time, or it went away before it confirmed an
                express event.
        """
        run = self._run
        if (
            topic is run.topic
            and link_class is run.link_class
            and type(payload) is bytes
            and (size := len(payload) + run.overhead) <= run.room
            and not (attributes or park or confirm or priority or correlation or retain)
            and budget is None
            and max_hops is None
            and ttl is None
            and traceparent is None
            and realm == "all"
            and not to
        ):
            # As the event before, of which all has been checked.
            run.room -= size
            run.payloads.append(payload)
            run.times.append(time_ns())
            return
        link_class = link_class_of(link_class)
        options = checked_options(
            max_hops, priority, correlation, retain=retain, ttl=ttl, realm=realm, to=to
        )
        if traceparent is not None:
            attributes = traced(attributes, traceparent)
        await self._publish(topic, payload, attributes, link_class, park, budget, options)
        if confirm:
            await self.flush()

    async def _publish(
        self,
        topic: str,
        payload: bytes,
        attributes: Attributes | None,
        link_class: LinkClass,
        park: float,
        budget: float | None,
        options: Options | None,
    ) -> int:
        """Publish an event of which little has been checked; return its number.

        Nothing of it is on its way before this returns without another wait.
        """
        run = self._run
        encoded = self._topics.get(topic) or self._check_topic(topic)
        if type(payload) is not bytes:
            payload = _as_bytes(payload)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise ConfigError(
                f"the payload has {len(payload)} bytes, {MAX_PAYLOAD_BYTES} are allowed"
            )
        if attributes:
            attributes = traced(attributes, None)
        packed = pack_attributes(attributes) if attributes else b""
        park_ms = _park_ms(park, link_class) if park else 0
        if options is not None and (options.retain or options.ttl_ms):
            self._check_lasting(link_class)
        if options is not None and options.to:
            self._check_named(link_class)
        if budget is not None and not link_class.is_timed:
            raise ConfigError(f"a budget is for express events, this one is {link_class}")
        if self._state.refusals:
            self._state.raise_refusal()
        if link_class.is_base:
            stream = self._normal
        elif link_class.is_timed:
            stream = self._express
        elif self._state.secure:
            stream = self._secure
        else:
            raise PublishRefused(
                "the hop to the broker is not secure; attach over chordals:// with an identity"
            )
        connection = self._core.connection
        run.close()
        if connection is None or run.turn_bytes <= 0:
            connection = await self._next_turn(stream)
            run.close()  # another task may have published
        if link_class.is_timed:
            size = self._publish_express(connection, encoded, packed, payload, budget, options)
            run.turn_bytes -= size
        else:
            item = stream.pack(encoded, packed, payload, time_ns(), park_ms, options)
            stream.keep(item)
            connection.send(item, 1)
            run.turn_bytes -= len(item)
            if not (packed or park_ms or options):
                run.follow(item, payload, topic, encoded, stream)
        return stream.sequence

    async def _next_turn(self, stream: OutgoingStream) -> ClientConnection:
        """Let others have their turn, and wait until there is room for what is published."""
        connection = await self._attachment.turn(stream)
        self._run.turn_bytes = TURN_BYTES
        return connection

    def _check_topic(self, topic: str) -> bytes:
        encoded = check_topic(topic).encode()
        if len(self._topics) >= MAX_KNOWN_TOPICS:
            self._topics.clear()
        self._topics[topic] = encoded
        return encoded

    def _check_lasting(self, link_class: LinkClass) -> None:
        """Check that an event can be retained, or have an end."""
        if link_class.is_timed:
            raise ConfigError(
                "an express event is not retained and has no ttl: it has a budget, and is of no "
                "use later; publish it as normal"
            )

    def _check_named(self, link_class: LinkClass) -> None:
        """Check that an event can be for named clients."""
        if not link_class.is_base:
            raise ConfigError(f"an event to named clients is of class normal, not {link_class}")

    def _publish_express(
        self,
        connection: ClientConnection,
        topic: bytes,
        attributes: bytes,
        payload: bytes,
        budget: float | None,
        options: Options | None,
    ) -> int:
        budget_us = 0 if budget is None else round(budget * 1_000_000)
        if budget is not None and not 0 < budget_us <= MAX_BUDGET_US:
            raise ConfigError(f"a budget of {budget} seconds; it is above 0, and under an hour")
        item = self._express.pack_express(topic, attributes, payload, time_ns(), budget_us, options)
        connection.send_express(item, FRAME_HEADER.size + SPENT_AT)
        return len(item)

    async def flush(self) -> None:
        """Wait until the broker has taken everything published so far.

        Raises:
            PublishRefused: it refused an event; nobody got that one.
            ConnectionLost: no broker was found in time, or it went away before it confirmed an
                express event; events not confirmed may or may not have been delivered.
            ClientClosed: the client's block has ended.
        """
        await self._attachment.confirmed()

    async def request(
        self,
        topic: str,
        payload: bytes = b"",
        *,
        timeout: float = REQUEST_SECONDS,
        attributes: Attributes | None = None,
        link_class: LinkClass = LinkClass.NORMAL,
        budget: float | None = None,
        priority: int = 0,
        realm: str = "all",
    ) -> Event:
        """Publish an event that asks for a reply, and return the first one.

        ``timeout``: seconds for all of it. ``realm``: how far the request goes. Subscribers to the
        topic may answer with :meth:`reply`, one of each queue group. The first request of a client
        takes longer, as it subscribes to the address for its replies.

        Raises:
            NoResponders: nobody has a subscription that matches; raised at once.
            RequestTimedOut: no reply has come in time; somebody may act on the request all the
                same.
            SubscribeRefused: the broker does not let this client get replies.
            TopicError, ConfigError, PublishRefused, ConnectionLost, ClientClosed: as
                :meth:`publish` does; ``timeout`` is no time.
        """
        if not timeout > 0:
            raise ConfigError(f"timeout={timeout}: give seconds, more than 0")
        self._core.check_open()
        check_topic(topic)
        link_class = link_class_of(link_class)
        options = checked_options(None, priority, b"", realm=realm) or Options()

        async def ask() -> Event:
            return await self._request(topic, payload, attributes, link_class, budget, options)

        reply = await self._attachment.loop.within(timeout, ask)
        if reply is None:
            raise RequestTimedOut(f"no reply on {topic} within {timeout:g} s")
        return reply

    async def _request(
        self,
        topic: str,
        payload: bytes,
        attributes: Attributes | None,
        link_class: LinkClass,
        budget: float | None,
        options: Options,
    ) -> Event:
        if self._replies is None:
            self._number += 1
            self._replies = Replies(
                self._attachment.loop, self._number, self._state.pending, token_bytes
            )
        await self._attachment.hear_replies(self._replies)
        requests = self._state.pending
        pending = requests.begin(topic, self._attachment.loop.event(), token_bytes)
        try:
            marked = options._replace(correlation=pending.correlation, is_request=True)
            about = topic, payload, attributes, link_class, 0.0, budget, marked
            sequence = await self._publish(*about)
            requests.sent(pending, link_class, sequence)
            await pending.done.wait()
        finally:
            requests.end(pending)
        if pending.reply is None:
            assert pending.problem is not None
            raise pending.problem
        return pending.reply

    async def reply(
        self,
        event: Event,
        payload: bytes = b"",
        *,
        attributes: Attributes | None = None,
        confirm: bool = False,
    ) -> None:
        """Answer a request: the client that has published ``event`` gets this, and nobody else.

        The reply is of the class of the request.

        Raises:
            ConfigError: nobody waits for a reply to this event; or as :meth:`publish` does.
            PublishRefused, ConnectionLost, ClientClosed: as :meth:`publish` does.
        """
        if not event.is_request:
            raise ConfigError(f"the event on {event.topic} is no request: nobody waits for a reply")
        await self.publish(
            event.reply_to,
            payload,
            attributes=attributes,
            link_class=event.link_class,
            confirm=confirm,
            correlation=event.correlation,
        )

    @asynccontextmanager
    async def subscribe(
        self,
        text: str,
        *,
        link_class: LinkClass | None = None,
        queue: str | None = None,
        realm: str = "all",
    ) -> AsyncIterator[Subscription]:
        """Subscribe for the length of the block. ``link_class``: only events of that class.

        ``queue``: name of a queue group. Of all subscriptions with this filter and this name, at
        whatever brokers, one gets each event. ``realm``: only events that are published in the same
        ``cluster``, ``super-cluster`` or ``super-super-cluster``; ``all``: wherever.

        Once it is active, nothing published anywhere is missed while nothing fails; wait for that
        with ``await subscription.active.wait()`` (:class:`~ges.client.subscription.Activity`).

        Raises:
            TopicError: the filter is malformed.
            ConfigError: ``queue`` is no name, ``realm`` no realm, or ``link_class`` no class.
            SubscribeRefused: the broker does not serve it, and why.
            ConnectionLost: there is no broker.
            ClientClosed: the client's block has ended.
        """
        self._core.check_open()
        check_filter(text)
        if queue is not None:
            check_queue(queue)
        if link_class is not None:
            link_class = link_class_of(link_class)
        ask = ask_for(text, link_class, queue, realm=realm_named(realm))
        self._number += 1
        subscription = Subscription(self._attachment.loop, self._number, ask)
        reason = await self._attachment.subscribe(subscription)
        if reason is not None:
            raise SubscribeRefused(why_refused(text, reason))
        try:
            yield subscription
        finally:
            subscription.end()
            self._core.unsubscribe(subscription)

    def inbox(self, name: str) -> AbstractAsyncContextManager[Subscription]:
        """Be attached under a name for the length of the block, and get the events for it.

        These are the events that are published with ``to`` this name, on whatever topic. Others may
        have the same name, and each gets them. Where brokers have access rules, the name has to be
        that of this client's token, or its uid.

        Raises:
            ConfigError: it is no name.
            SubscribeRefused: the broker does not let this client have the name, and why.
            ConnectionLost: there is no broker.
            ClientClosed: the client's block has ended.
        """
        return self.subscribe(name_filter(check_name(name)))

    async def spread(self, revoked: RevocationList) -> None:
        """Hand a list of revoked identities to the broker, which spreads it to all others.

        Raises:
            SpreadRefused: the broker does not take it, and why.
            ConnectionLost: there is no broker.
            ClientClosed: the client's block has ended.
        """
        self._core.check_open()
        problem = await self._attachment.spread(RevocationNotice(revoked.crl, revoked.voucher))
        if problem is not None:
            raise SpreadRefused(f"{self.broker_url}: {printable(problem)}")

    async def operate(self, question: ClientsRequest | Kick | Drain) -> ClientList:
        """Ask the broker as an operator; the list is empty where it has only to do something.

        Raises:
            OperationRefused: this client may not, or it cannot be done, and why.
            ConnectionLost: there is no broker.
            ClientClosed: the client's block has ended.
        """
        self._core.check_open()
        answer = await self._attachment.operate(checked_question(question))
        if isinstance(answer, ClientList):
            return answer
        self._raise_problem(answer)
        return ClientList((), False)

    async def join_unit(self, question: UnitJoin | UnitJoinQuestion) -> UnitJoining:
        """Ask the broker to let its unit join another context, or how far it is with that.

        Raises:
            OperationRefused: this client may not, or it cannot be done, and why.
            ConnectionLost: there is no broker.
            ClientClosed: the client's block has ended.
        """
        self._core.check_open()
        answer = await self._attachment.operate(checked_question(question))
        self._raise_problem(answer)
        assert isinstance(answer, UnitJoining)
        return answer

    async def drill(self, question: Question) -> Drilled:
        """Ask the broker as a drill does: to break itself, or what it has seen.

        Raises:
            OperationRefused: it takes part in no drills, or this client may not drill, and why.
            ConnectionLost: there is no broker.
            ClientClosed: the client's block has ended.
        """
        self._core.check_open()
        answer = await self._attachment.operate(checked_question(question))
        self._raise_problem(answer)
        assert isinstance(answer, Drilled)
        return answer

    def _raise_problem(self, answer: object) -> None:
        problem = answer.problem if isinstance(answer, Operated | UnitJoining) else None
        if problem is not None:
            raise OperationRefused(f"{self.broker_url}: {printable(problem)}")

    async def status(self) -> Status:
        """Ask the broker about itself.

        Raises:
            ConnectionLost: there is no broker.
            ClientClosed: the client's block has ended.
        """
        self._core.check_open()
        return await self._attachment.status()

    async def why(
        self,
        topic: str,
        *,
        link_class: LinkClass = LinkClass.NORMAL,
        subscriber: str | None = None,
        clients_only: bool = False,
        realm: str = "all",
    ) -> Why:
        """Ask the broker what it would do with an event, and why; nothing is published.

        ``subscriber``: of the broker's clients, tell only of the one with this uid.
        ``clients_only``: tell of its clients, and not of other brokers. ``realm``: of the event.

        Raises:
            TopicError: the topic is malformed.
            ConfigError: another argument is none of its kind.
            ConnectionLost: there is no broker.
            ClientClosed: the client's block has ended.
        """
        self._core.check_open()
        about = check_topic(topic), link_class_of(link_class), subscriber, clients_only
        question = WhyRequest(*about, realm_named(realm))
        answer = await self._attachment.why(checked_question(question))
        assert isinstance(answer, Why)
        return answer

    async def why_event(
        self, publisher: str, sequence: int, *, link_class: LinkClass = LinkClass.NORMAL
    ) -> WhyEvent:
        """Ask the broker what it still knows of an event of that publisher and number.

        Raises:
            ConfigError: an argument is none of its kind.
            ConnectionLost: there is no broker.
            ClientClosed: the client's block has ended.
        """
        self._core.check_open()
        question = WhyEventRequest(publisher, sequence, link_class_of(link_class))
        answer = await self._attachment.why(checked_question(question))
        assert isinstance(answer, WhyEvent)
        return answer


def _as_bytes(payload: object) -> bytes:
    """Return what can only be meant as bytes; text is refused, as nobody has said its encoding."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    mend = "encode it: text.encode()" if isinstance(payload, str) else "give bytes"
    raise ConfigError(f"the payload is {type(payload).__name__}, not bytes; {mend}")


def _park_ms(seconds: float, link_class: LinkClass) -> int:
    if not link_class.may_wait or not 0 < seconds <= MAX_PARK_SECONDS:
        raise ConfigError(
            f"park is for secure events, and up to {MAX_PARK_SECONDS:.0f} seconds; not {seconds}"
        )
    return math.ceil(seconds * 1000)
