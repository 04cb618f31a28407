"""What a client knows of its broker, and what the broker has taken from it. Pure.

An attachment hands in every message of the broker, and does what :meth:`ClientState.take` returns.
It says when a broker is found and when it is lost, and it does the waiting. Here is no clock, no
task and no socket: a client on another event loop has an attachment of its own, and this state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ges.client.keepalive import Keepalive
from ges.client.outgoing import OutgoingStream
from ges.client.requests import PendingRequests
from ges.client.resuming import resume
from ges.client.watermarks import Watermarks
from ges.errors import ConnectionLost, PublishRefused
from ges.wire.broker_messages import RevocationNotice
from ges.wire.client_messages import (
    Accepted,
    Active,
    Alternates,
    Attached,
    Dropped,
    EventRefused,
    KeepAlive,
    Leaving,
    Level,
    Missed,
    NoResponder,
    RevocationTaken,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
)
from ges.wire.drill_messages import Drilled
from ges.wire.operator_messages import ClientList, Operated, UnitJoining
from ges.wire.status import MoreStatus, Status
from ges.wire.status_pages import StatusPages
from ges.wire.why import Why
from ges.wire.why_event import WhyEvent
from overlay.address import Address, is_loopback, parse_url
from overlay.errors import ConfigError
from overlay.ids import LinkClass
from overlay.machine import Message
from overlay.wording import printable

MAX_ALTERNATES = 64


@dataclass(frozen=True, slots=True)
class Ended:
    """A subscription that the broker served, and serves no more."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Away:
    """The broker was off the ring, or was held for dead, for so many seconds until now."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Activated:
    """A subscription is active, so far."""

    number: int
    level: Level


@dataclass(frozen=True, slots=True)
class Move:
    """The broker leaves: publish nothing more there, and go to another once :attr:`may_go`."""


#: What is to be done on account of a message: send an answer, learn a list of revoked identities,
#: end a subscription, note a gap, or say that a subscription is active.
Action = KeepAlive | RevocationNotice | Ended | Away | Activated | Move


class ClientState:
    """The present broker, others to go to, subscriptions, and the client's own events."""

    def __init__(
        self, addresses: Sequence[Address], publisher: bytes, incarnation: int, *, has_token: bool
    ) -> None:
        """Begin without a broker.

        Args:
            addresses: those given, at least one; all of them are TLS, or none is.
            publisher: the client's uid.
            incarnation: of its events.
            has_token: it goes to no plain broker on another host, where others would read it.
        """
        self.url = addresses[0].url  #: of the broker attached to, or last attached to
        self.broker_uid = ""
        self.secure = False  #: the hop to it
        self.keepalive = Keepalive(0.0)  #: with it
        self.dropped = Dropped(0, 0)  #: by it
        self.alternates: tuple[str, ...] = ()  #: those that can be called
        self.unusable: dict[str, str] = {}  #: alternates that are no URLs of brokers, and why
        self.lost_url = ""
        self.watermarks = Watermarks()
        self.outgoing = {each: OutgoingStream(each, publisher, incarnation) for each in LinkClass}
        self.requests: dict[int, Subscribe] = {}  #: to be made of every broker
        self._served: dict[int, float] = {}  #: by number of request, when one first served it
        self.refusals: list[str] = []  #: of the client's events
        self.statuses: list[Status] = []
        self._pages = StatusPages()
        self.explanations: list[Why | WhyEvent] = []
        self.taken: list[RevocationTaken] = []
        self.operated: list[ClientList | Operated | Drilled | UnitJoining] = []
        self.pending = PendingRequests(publisher.hex())  #: requests that wait for a reply
        self._addresses = tuple(addresses)
        self._has_token = has_token
        self._learnt: tuple[Address, ...] = ()  #: of the alternates
        self._lost_at: float | None = None
        self._unsettled: set[int] = set()  #: requests whose answer nobody has taken note of
        self._decisions: dict[int, str | None] = {}  #: on those: why not; None: served
        self._accepted: dict[LinkClass, int] = {}
        self._refused: dict[LinkClass, set[int]] = {}  #: beyond what is accepted
        self._unconfirmed_lost = False

    # ── a broker is found, and lost ───────────────────────────────────────────────────────────

    def choices(self) -> list[Address]:
        """Return the brokers to try: those given, then those learnt; the one just lost is last."""
        tls = self._addresses[0].tls
        found = list(self._addresses)
        found += [
            Address(address.host, address.port, tls)
            for address in self._learnt
            if not self._has_token or tls or is_loopback(address.host)
        ]
        unique = list(dict.fromkeys(found))
        return sorted(unique, key=lambda address: address.url == self.lost_url)

    def attach(self, url: str, attached: Attached, now: float) -> float | None:
        """A broker has taken us at ``now``, in seconds.

        Returns for how many seconds there was no broker; None for the first one.
        """
        self.url, self.broker_uid, self.secure = url, attached.broker, attached.secure
        self.keepalive = Keepalive(now)
        self.watermarks.move()
        return None if self._lost_at is None else now - self._lost_at

    def unconfirmed(self, now: int) -> Iterator[bytes]:
        """Yield the events that this broker is to be sent again; ``now`` is unix time, in ns."""
        for link_class, stream in self.outgoing.items():
            if not link_class.is_secret or self.secure:
                yield from stream.again(self._refused.get(link_class, set()), now)

    def lose(self) -> None:
        """The broker is lost, with whatever was not confirmed and is not kept."""
        self._lost_at, self.lost_url = self.keepalive.heard_at, self.url
        last = self.outgoing[LinkClass.EXPRESS].sequence
        if self._accepted.get(LinkClass.EXPRESS, 0) < last:
            self._unconfirmed_lost = True
            self._accepted[LinkClass.EXPRESS] = last

    # ── subscriptions ─────────────────────────────────────────────────────────────────────────

    def request(self, request: Subscribe) -> None:
        """A subscription is wanted of this broker, and of all later ones until it is withdrawn."""
        self.requests[request.number] = request
        self._unsettled.add(request.number)

    def all_requests(self, now: float) -> Iterator[Message]:
        """Yield what asks a new broker for all subscriptions, at ``now``, in seconds.

        One that was served before comes with what was missed since the last broker was lost. What
        is missed in a queue group others have got.
        """
        served = [
            (request, now - self._served[number])
            for number, request in self.requests.items()
            if number in self._served and request.ask.group is None
        ]
        if served:
            yield from resume(served, self.watermarks.marks())
        again = {request.number for request, _ in served}
        yield from (each for number, each in self.requests.items() if number not in again)

    def is_decided(self, number: int) -> bool:
        """Say whether a broker has answered a request."""
        return number in self._decisions

    def settle(self, number: int) -> str | None:
        """Take note of the answer to a request: why it is refused; None: it is served."""
        self._unsettled.discard(number)
        return self._decisions.pop(number)

    def withdraw(self, number: int) -> None:
        """A subscription is wanted no more."""
        self.requests.pop(number, None)
        self._served.pop(number, None)
        self._unsettled.discard(number)
        self._decisions.pop(number, None)

    # ── the client's own events ───────────────────────────────────────────────────────────────

    def raise_refusal(self) -> None:
        """Raise what the broker has refused since last asked.

        Raises:
            PublishRefused: it refused an event, or several.
        """
        if self.refusals:
            reasons, self.refusals = self.refusals, []
            more = f" (and {len(reasons) - 1} more refusals)" if len(reasons) > 1 else ""
            raise PublishRefused(reasons[0] + more)

    def is_confirmed(self) -> bool:
        """Say whether all that was published is taken.

        Raises:
            PublishRefused: an event is refused.
            ConnectionLost: a broker was lost before it confirmed an express event.
        """
        self.raise_refusal()
        if self._unconfirmed_lost:
            self._unconfirmed_lost = False
            raise ConnectionLost(
                "the broker was lost before it confirmed all express events; "
                "those not confirmed may or may not have been delivered"
            )
        return self.is_settled

    @property
    def is_settled(self) -> bool:
        """Whether a broker has taken or refused all that was published."""
        return all(
            self._accepted.get(s.link_class, 0) >= s.sequence for s in self.outgoing.values()
        )

    @property
    def may_go(self) -> bool:
        """Whether nothing is lost if the client leaves its broker: all else it publishes again."""
        express = self.outgoing[LinkClass.EXPRESS].sequence
        return self._accepted.get(LinkClass.EXPRESS, 0) >= express

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def take(self, message: Message, now: float) -> Action | None:
        """Note what the broker says at ``now``, in seconds; return what is to be done, if any."""
        match message:
            case Accepted(link_class, sequence):
                self._decide(link_class, sequence, now)
            case EventRefused(link_class, sequence, _) if sequence <= self._accepted.get(
                link_class, 0
            ):
                pass  # the broker before took it, and it was sent again only in case it was lost
            case EventRefused(link_class, sequence, reason):
                # It may overtake what went before, which may be parked for long.
                self._refused.setdefault(link_class, set()).add(sequence)
                self._decide(link_class, 0, now)
                if not self.pending.refuse(link_class, sequence, printable(reason)):
                    self.refusals.append(printable(reason))
            case NoResponder(link_class, sequence):
                self.pending.say_nobody(link_class, sequence)
            case Subscribed(number) if number in self.requests:
                self._served.setdefault(number, now)
                if number in self._unsettled:
                    self._decisions.setdefault(number, None)
            case Active(number, level) if number in self.requests:
                return Activated(number, Level(min(level, Level.SYSTEM)))
            case SubscriptionRefused(number, told):
                reason = printable(told)
                if number in self._unsettled:
                    self._decisions[number] = self._decisions.get(number) or reason
                elif self.requests.pop(number, None) is not None:
                    self._served.pop(number, None)
                    return Ended(number, reason)
            case Alternates(urls):
                self._learn_alternates(urls[:MAX_ALTERNATES])
            case KeepAlive(token, answer) if not answer:
                return KeepAlive(token, answer=True)
            case KeepAlive(token):
                self.keepalive.answered(token, now)
            case RevocationNotice():
                return message
            case Leaving():
                return Move()
            case RevocationTaken():
                self.taken.append(message)
            case ClientList() | Operated() | Drilled() | UnitJoining():
                self.operated.append(message)
            case Dropped():
                self.dropped = message
            case Missed(milliseconds):
                return Away(milliseconds / 1000)
            case Status() | MoreStatus():
                if (status := self._pages.take(message)) is not None:
                    self.statuses.append(status)
            case Why() | WhyEvent():
                self.explanations.append(message)
            case _:
                pass
        return None

    def _decide(self, link_class: LinkClass, sequence: int, now: float) -> None:
        """All events of that class up to ``sequence`` are taken or refused."""
        accepted = max(self._accepted.get(link_class, 0), sequence)
        refused = self._refused.setdefault(link_class, set())
        while accepted + 1 in refused:
            accepted += 1
        self._accepted[link_class] = accepted
        self.outgoing[link_class].confirm(accepted, now, refused)
        refused -= {number for number in refused if number <= accepted}

    def _learn_alternates(self, urls: tuple[str, ...]) -> None:
        """Note other brokers to go to; what cannot be called is no reason to go nowhere."""
        learnt: dict[str, Address] = {}
        self.unusable.clear()
        for url in urls:
            try:
                learnt[url] = parse_url(url)
            except ConfigError:
                self.unusable[url] = f"not a broker's URL, told by {self.url}"
        self.alternates, self._learnt = tuple(learnt), tuple(learnt.values())
