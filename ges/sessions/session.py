"""One client attached to this broker, as the broker sees it."""

from __future__ import annotations

from typing import Protocol

from ges.access.admission import Admitted
from ges.access.rules import NOBODY
from ges.wire.asked import Ask
from ges.wire.client_messages import CLIENT_CODEC, Leaving, Missed
from overlay.address import is_loopback
from overlay.ids import LinkClass, Nanos, short
from overlay.machine import Message
from overlay.queues.outbox import Outbox
from overlay.queues.outlet import Outlet
from overlay.security.identity import PeerIdentity
from overlay.shares import NOWHERE, Source
from overlay.wire.codec import FrameReader
from overlay.wording import printable

CLIENT_QUEUE_BYTES = 16 * 1024 * 1024
#: Memory for the topics of which is remembered whether a client may publish to them, and why not.
MAX_VERDICT_BYTES = 128 * 1024
ENTRY_BYTES = 128  #: an entry of a dictionary takes so much, beside what is in it


EVERYTHING = Admitted(NOBODY, None, None)  #: where there are no rules


class ClientOutlet(Outlet, Protocol):
    """A client's connection; on trio an :class:`overlay.net.connection.Connection`."""

    @property
    def secure(self) -> bool:
        """It runs over TLS."""

    @property
    def outbox(self) -> Outbox:
        """What waits to be sent."""

    @property
    def memory(self) -> int:
        """Bytes of memory that it takes, with what is queued."""

    @property
    def overflowed(self) -> bool:
        """It was given up, as too much was held for the client or of it."""

    @property
    def events(self) -> int:
        """Events that were queued so far."""

    @property
    def sent_bytes(self) -> int:
        """Bytes that have left so far."""

    def finish(self) -> None:
        """Close after what is queued has been sent."""

    def abort(self) -> None:
        """Close now, dropping what is queued."""

    def give_up(self) -> None:
        """Close now, as too much is held for the client or of it."""


def _who(
    uid: str, host: str | None, port: int | None, mqtt_client_id: str | None
) -> dict[str, object]:
    """Return what the log says of a client: a uid says nothing to a client of MQTT."""
    found: dict[str, object] = {"client": short(uid)}
    if mqtt_client_id is not None:
        found["mqtt_client_id"] = printable(mqtt_client_id)
    if host is not None:
        found["host"] = host
    if port is not None:
        found["port"] = port
    return found


class Session:
    """A client's connection, subscriptions, and the last events taken from it."""

    __slots__ = (
        "accepted",
        "admission",
        "always_waits",
        "asks",
        "changes",
        "connection",
        "filter_bytes",
        "host",
        "identity",
        "incarnation",
        "is_asking",
        "is_detached",
        "is_local",
        "last",
        "last_word",
        "number",
        "only_looks",
        "published",
        "publisher",
        "reader",
        "since",
        "source",
        "status",
        "told_dropped",
        "uid",
        "unsaid",
        "verdict_bytes",
        "verdicts",
        "waiting_bytes",
        "who",
    )

    def __init__(
        self,
        uid: str,
        incarnation: int,
        connection: ClientOutlet,
        admission: Admitted = EVERYTHING,
        identity: PeerIdentity | None = None,
        reader: FrameReader | None = None,
        *,
        only_looks: bool = False,
        host: str | None = None,
        port: int | None = None,
        mqtt_client_id: str | None = None,
        source: Source = NOWHERE,
        since: Nanos = 0,
        number: int = 0,
    ) -> None:
        """Begin to serve it.

        Args:
            only_looks: it may ask for the status, and no more.
            host: IP address that it is attached from; None: there is none.
            port: that it is attached from.
            mqtt_client_id: what a client of MQTT calls itself.
            source: to whom it counts, where there is only so much of something.
            since: when it was attached.
            number: of its connection at this broker.
        """
        self.admission = admission  #: who it is, and what it may
        self.verdicts: dict[bytes, str | None] = {}  #: why not, by topic
        self.verdict_bytes = 0
        self.changes = 0  #: of its subscriptions, which its reader has not yet been slowed down for
        self.filter_bytes = 0  #: memory its filters may take
        self.waiting_bytes = 0  #: memory for what is still to be looked up for it
        self.uid = uid
        self.publisher = bytes.fromhex(uid)
        self.incarnation = incarnation
        self.connection = connection
        self.identity = identity  #: as certified in the handshake; None: plain
        self.reader = reader
        self.status: bytes | None = None  #: answers all requests that come in one read
        self.is_detached = False  #: it is served no more
        self.asks: dict[int, Ask] = {}  #: by the numbers of its subscriptions
        self.only_looks = only_looks
        self.host = host
        #: A client of MQTT never says that it waits for its events to be confirmed.
        self.always_waits = mqtt_client_id is not None
        self.who = _who(uid, host, port, mqtt_client_id)  #: as lines of the log name it
        self.is_local = host is None or is_loopback(host)
        self.source = source
        self.since = since
        self.number = number
        self.published = 0  #: events that it has sent, refused ones among them
        self.is_asking = False  #: it waits, and has not been answered
        self.unsaid = 0  #: events taken, but not yet told the client
        self.accepted: dict[LinkClass, int] = {}  #: taken, but not yet told the client
        self.last_word = b""  #: to be sent although it is detached, before its connection is closed
        self.told_dropped = (0, 0)  #: normal and express events dropped, as last told the client
        self.last: dict[LinkClass, int] = {}  #: sequence taken last, by class

    def tell(self, message: Message) -> None:
        """Send the client a message of its broker."""
        self.connection.send(CLIENT_CODEC.encode(message))

    def tell_missed(self, absence: Nanos) -> None:
        """Tell it that it may have missed events since so many nanoseconds ago."""
        self.tell(Missed(absence // 1_000_000))

    def send_away(self) -> None:
        """The broker leaves: let the client go to another one, with as little lost as may be."""
        self.tell(Leaving())

    def answer(self, message: Message) -> None:
        """Tell the client what has come of its request, be it that it was detached for it."""
        if self.is_detached:
            self.last_word = CLIENT_CODEC.encode(message)
        else:
            self.tell(message)

    def why_not(self, topic: bytes) -> str | None:
        """Return why the rules do not let it publish to a checked topic, or None."""
        permissions = self.admission.permissions
        if permissions is None:
            return None
        if topic not in self.verdicts:
            decision = permissions.publish(topic.decode())
            reason = None if decision.allowed else decision.reason
            self.verdict_bytes += ENTRY_BYTES + len(topic) + len(reason or "")
            if self.verdict_bytes > MAX_VERDICT_BYTES:
                self.forget_verdicts()
            self.verdicts[topic] = reason
            return reason
        return self.verdicts[topic]

    def forget_verdicts(self) -> None:
        """Judge all topics anew from now on."""
        self.verdicts.clear()
        self.verdict_bytes = 0

    @property
    def held_bytes(self) -> int:
        """Memory that it takes: its connection, with what is queued, frames not whole yet, and
        what is remembered of it."""
        unfinished = self.reader.kept_bytes if self.reader is not None else 0
        # Filters are charged with what they take at most, which is twice what they mostly do.
        remembered = self.filter_bytes // 2 + self.verdict_bytes + self.waiting_bytes
        return self.connection.memory + unfinished + remembered

    def give_up(self) -> None:
        """End its connection now: too much is held for it, or of it."""
        self.connection.give_up()

    @property
    def dropped(self) -> tuple[int, int]:
        """Normal and express events that were dropped as the client took them too slowly."""
        outbox = self.connection.outbox
        return outbox.normal.dropped, outbox.express.dropped

    @property
    def secure(self) -> bool:
        """Secure events may travel on this hop."""
        return self.connection.secure

    @property
    def subscriptions(self) -> int:
        """How many it has."""
        return len(self.asks)
