"""The door of the client for scripts, and that client."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

from ges.client import aio
from ges.client.client import REQUEST_SECONDS
from ges.client.gaps import Gap
from ges.client.subscription import Subscription as Awaited
from ges.client.sync.subscription import Subscription
from ges.client.sync.thread import ClientThread
from ges.wire.attributes import Attributes
from ges.wire.delivered import Event
from ges.wire.drill_messages import Drilled, Question
from ges.wire.operator_messages import (
    ClientList,
    ClientsRequest,
    Drain,
    Kick,
    UnitJoin,
    UnitJoining,
    UnitJoinQuestion,
)
from ges.wire.status import Status
from ges.wire.why import Why
from ges.wire.why_event import WhyEvent
from overlay.ids import LinkClass
from overlay.security.revocation import RevocationList


def connect(
    *urls: str,
    identity: str | Path | None = None,
    overlay: str = "chordal",
    timeout: float = math.inf,
    reattach: bool = True,
    on_waiting: Callable[[str], None] | None = None,
    on_gap: Callable[[Gap], None] | None = None,
    token: str | None = None,
    only_looks: bool = False,
) -> Client:
    """Attach to the first broker that answers, and return the client.

    Leave it to a ``with`` block, or call :meth:`Client.close` in the end. The arguments are those
    of :func:`ges.client.connect`, and mean the same; ``on_waiting`` and ``on_gap`` are called in
    the client's own thread, so they must not wait for the client.

    Raises:
        ConfigError: a URL is none, some are chordals:// and some are not, the identity cannot be
            used, ``timeout`` is no time, or a token would go over a plain connection to another
            host.
        ConnectionLost: no broker was found in time, or none ever will; the text says what each
            answered.
    """

    def attach() -> AbstractAsyncContextManager[aio.Client]:
        return aio.connect(
            *urls,
            identity=identity,
            overlay=overlay,
            timeout=timeout,
            reattach=reattach,
            on_waiting=on_waiting,
            on_gap=on_gap,
            token=token,
            only_looks=only_looks,
        )

    return Client(ClientThread(attach))


class Client:
    """An attached client; made by :func:`ges.client.sync.connect`. Also a context manager.

    Any thread may call it. One that nobody refers to any more is closed, and so are all that are
    left when the program ends.
    """

    def __init__(self, thread: ClientThread) -> None:
        self._thread = thread
        self._client = thread.client
        self._stop = weakref.finalize(self, thread.stop)

    @property
    def uid(self) -> str:
        """Under which its events go."""
        return self._client.uid

    @property
    def broker_url(self) -> str:
        """URL of the broker attached to, or last attached to."""
        return self._client.broker_url

    @property
    def secure(self) -> bool:
        """Whether the hop to the broker is TLS."""
        return self._client.secure

    @property
    def alternates(self) -> tuple[str, ...]:
        """URLs of other brokers, as learnt from the one attached to."""
        return self._client.alternates

    @property
    def dropped(self) -> tuple[int, int]:
        """Normal and express events that the broker dropped, as they were taken too slowly."""
        return self._client.dropped

    @property
    def unreadable(self) -> int:
        """Events that came and make no sense; none is seen."""
        return self._client.unreadable

    @property
    def gaps(self) -> list[Gap]:
        """Times in which events may have been missed, oldest first."""
        return list(self._client.gaps)

    def publish(
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
        """Publish an event; arguments and errors are those of :meth:`ges.client.Client.publish`."""
        self._thread.call(
            self._client.publish(
                topic,
                payload,
                attributes=attributes,
                link_class=link_class,
                confirm=confirm,
                park=park,
                budget=budget,
                max_hops=max_hops,
                priority=priority,
                correlation=correlation,
                retain=retain,
                ttl=ttl,
                traceparent=traceparent,
                realm=realm,
                to=to,
            )
        )

    def flush(self) -> None:
        """Wait until the broker has taken everything published so far.

        Raises:
            PublishRefused: it refused an event; nobody got that one.
            ConnectionLost: no broker was found in time, or it went away before it confirmed an
                express event; events not confirmed may or may not have been delivered.
            ClientClosed: the client is closed.
        """
        self._thread.call(self._client.flush())

    def request(
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
        """Ask, and return the first reply; all is as in :meth:`ges.client.Client.request`."""
        return self._thread.call(
            self._client.request(
                topic,
                payload,
                timeout=timeout,
                attributes=attributes,
                link_class=link_class,
                budget=budget,
                priority=priority,
                realm=realm,
            )
        )

    def reply(
        self,
        event: Event,
        payload: bytes = b"",
        *,
        attributes: Attributes | None = None,
        confirm: bool = False,
    ) -> None:
        """Answer a request; arguments and errors are those of :meth:`ges.client.Client.reply`."""
        self._thread.call(
            self._client.reply(event, payload, attributes=attributes, confirm=confirm)
        )

    def subscribe(
        self,
        text: str,
        *,
        link_class: LinkClass | None = None,
        queue: str | None = None,
        realm: str = "all",
    ) -> Subscription:
        """Subscribe until the subscription is closed, or left by its ``with`` block.

        ``link_class``: only events of that class. ``queue``: name of a queue group, of which one
        member gets each event. ``realm``: only events that are published in the same unit.

        Raises:
            TopicError: the filter is malformed.
            ConfigError: ``queue`` is no name, or ``realm`` no realm.
            SubscribeRefused: the broker does not serve it, and why.
            ConnectionLost: there is no broker.
            ClientClosed: the client is closed.
        """
        block = self._client.subscribe(text, link_class=link_class, queue=queue, realm=realm)
        return Subscription(self._thread, block, self._thread.call(_enter(block)))

    def inbox(self, name: str) -> Subscription:
        """Be attached under a name, and get the events for it; as :meth:`ges.client.Client.inbox`.

        The name is held until the subscription is closed, or left by its ``with`` block.
        """
        block = self._client.inbox(name)
        return Subscription(self._thread, block, self._thread.call(_enter(block)))

    def spread(self, revoked: RevocationList) -> None:
        """Hand a list of revoked identities to the broker, which spreads it to all others.

        Raises:
            SpreadRefused: the broker does not take it, and why.
            ConnectionLost: there is no broker.
            ClientClosed: the client is closed.
        """
        self._thread.call(self._client.spread(revoked))

    def operate(self, question: ClientsRequest | Kick | Drain) -> ClientList:
        """Ask the broker as an operator; the list is empty where it has only to do something.

        Raises:
            OperationRefused: this client may not, or it cannot be done, and why.
            ConnectionLost: there is no broker.
            ClientClosed: the client is closed.
        """
        return self._thread.call(self._client.operate(question))

    def join_unit(self, question: UnitJoin | UnitJoinQuestion) -> UnitJoining:
        """Ask the broker to let its unit join another context, or how far it is with that.

        Raises:
            OperationRefused: this client may not, or it cannot be done, and why.
            ConnectionLost: there is no broker.
            ClientClosed: the client is closed.
        """
        return self._thread.call(self._client.join_unit(question))

    def drill(self, question: Question) -> Drilled:
        """Ask the broker as a drill does: to break itself, or what it has seen.

        Raises:
            OperationRefused: it takes part in no drills, or this client may not drill, and why.
            ConnectionLost: there is no broker.
            ClientClosed: the client is closed.
        """
        return self._thread.call(self._client.drill(question))

    def status(self) -> Status:
        """Ask the broker about itself.

        Raises:
            ConnectionLost: there is no broker.
            ClientClosed: the client is closed.
        """
        return self._thread.call(self._client.status())

    def why(
        self,
        topic: str,
        *,
        link_class: LinkClass = LinkClass.NORMAL,
        subscriber: str | None = None,
        clients_only: bool = False,
        realm: str = "all",
    ) -> Why:
        """Ask the broker what it would do with an event; as :meth:`ges.client.Client.why`."""
        return self._thread.call(
            self._client.why(
                topic,
                link_class=link_class,
                subscriber=subscriber,
                clients_only=clients_only,
                realm=realm,
            )
        )

    def why_event(
        self, publisher: str, sequence: int, *, link_class: LinkClass = LinkClass.NORMAL
    ) -> WhyEvent:
        """Ask what the broker knows of an event; as :meth:`ges.client.Client.why_event`."""
        return self._thread.call(self._client.why_event(publisher, sequence, link_class=link_class))

    def close(self) -> None:
        """Send what is queued, end all subscriptions, and leave the broker."""
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


async def _enter(block: AbstractAsyncContextManager[Awaited]) -> Awaited:
    return await block.__aenter__()
