"""One MQTT client, as a client of the broker: what it says is said anew in our own frames. Pure.

For example, a client sends PUBLISH with QoS 1. That becomes an event frame. The broker says
``Accepted``, and the client gets PUBACK. So all that holds for a client holds for this one, and the
broker need not know that it speaks MQTT.

Bytes of the client are fed to :meth:`Gateway.receive`, and messages of the broker to
:meth:`Gateway.tell`. Either may leave something for both: :attr:`Gateway.to_broker` and
:attr:`Gateway.to_client`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from ges.access.rules import is_denial
from ges.errors import MqttError, TopicError
from ges.mqtt import writing
from ges.mqtt.aliases import Aliases
from ges.mqtt.codec import PacketReader, wrong
from ges.mqtt.greeting import RECEIVE_MAXIMUM, Greeted
from ges.mqtt.mapping import Publisher, checked_wildcards, event_of, properties_of
from ges.mqtt.outgoing import Outgoing
from ges.mqtt.packets import (
    MQTT_5,
    Connect,
    DisconnectPacket,
    Pingreq,
    Puback,
    Publish,
    SubscribePacket,
    UnsubscribePacket,
)
from ges.mqtt.properties import NONE, Property
from ges.mqtt.reading import read_packet
from ges.mqtt.reasons import SUBSCRIPTION_FAILED, Reason
from ges.mqtt.shared import split_share
from ges.mqtt.wishes import Wishes, code_of
from ges.sessions.intake import TOO_LARGE
from ges.wire.asked import Ask
from ges.wire.client_messages import (
    CLIENT_CODEC,
    Accepted,
    Attached,
    EventRefused,
    KeepAlive,
    Leaving,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
    Unsubscribe,
)
from ges.wire.delivered import Event, read_delivery
from overlay.errors import CodecError
from overlay.ids import LinkClass
from overlay.machine import Message, Refused
from overlay.wire.codec import FrameReader
from overlay.wire.frames import CONTROL, DELIVERY, EVENT, HEADER, frame
from overlay.wire.greetings import GREETINGS, Refusal

TURN_BYTES = 256 * 1024  #: of frames for the broker: then it takes these before more is read
REASON_BYTES = 1024  #: a client that takes no packet so large is told no reasons in text
NO_QOS_2 = "QoS 2 is not served here; publish with QoS 1"


class Gateway:
    """What one client and its broker have to say to each other."""

    def __init__(
        self,
        connect: Connect,
        greeted: Greeted,
        publisher: Publisher,
        reader: PacketReader,
        wall_ns: Callable[[], int],
    ) -> None:
        """Take what the client said first, and what it is answered.

        Args:
            connect: its first packet.
            greeted: what it is told, once the broker has taken it.
            publisher: whose events its messages become.
            reader: with what has come behind the first packet.
            wall_ns: returns unix time.
        """
        self.to_broker = bytearray()
        self.to_client = bytearray()
        self.is_over = False  #: the connection is to be closed, after what is to be sent
        self.is_paused = True  #: the client may have sent more than was taken so far
        self.ended_for: tuple[int, str] | None = None  #: why it was cut off, and in words
        self.unmapped = 0  #: events that make no sense, or no message
        self.refused = 0  #: messages that were not taken, and of which the client was not told
        self.level = connect.level
        self._greeted = greeted
        self._publisher = publisher
        self._uid = publisher.uid.hex()
        self._packets = reader
        self._wall_ns = wall_ns
        self._will = connect.will
        self._session_expiry = connect.properties.number(Property.SESSION_EXPIRY, 0)
        self._frames = FrameReader()
        self._is_attached = False
        self._sequence = 0
        self._unanswered: dict[int, int] = {}  #: packet ids of messages of QoS 1, by sequence
        self._aliases = Aliases()
        self._wishes = Wishes()
        properties = connect.properties
        most_bytes = properties.number(Property.MAXIMUM_PACKET, 0) or None
        self._outgoing = Outgoing(
            connect.level,
            properties.number(Property.RECEIVE_MAXIMUM, 65_535),
            most_bytes,
        )
        wants_reasons = properties.number(Property.PROBLEM_INFORMATION, 1) == 1
        self._tells_why = wants_reasons and (most_bytes is None or most_bytes >= REASON_BYTES)

    @property
    def is_full(self) -> bool:
        """The client has to acknowledge messages before it gets more."""
        return self._outgoing.is_full

    @property
    def too_large(self) -> int:
        """Messages that were dropped, as the client takes none so large."""
        return self._outgoing.too_large

    @property
    def held_bytes(self) -> int:
        """Memory that what is under way here takes."""
        return len(self.to_broker) + len(self.to_client) + self._packets.kept_bytes

    @property
    def has_begun(self) -> bool:
        """A packet of the client has begun, and is not whole yet."""
        return bool(self._packets.kept_bytes)

    @property
    def has_will(self) -> bool:
        """Something is to be published when the client goes without a word."""
        return self._will is not None

    # ── from the client ───────────────────────────────────────────────────────────────────────

    def receive(self, data: bytes | bytearray) -> int:
        """Take what the client has sent; returns how many packets were taken.

        Where they become much for the broker, the rest is left until :attr:`is_paused` is looked
        at: then this is to be called again, with nothing.

        Raises:
            MqttError: it breaks the protocol; what was whole before is in :attr:`to_broker`.
        """
        self._packets.feed(data)
        self.is_paused = False
        count = 0
        while not self.is_over:
            if len(self.to_broker) >= TURN_BYTES:
                self.is_paused = True
                break
            found = self._packets.next()
            if found is None:
                break
            count += 1
            self._take(*found)
        return count

    def _take(self, first: int, body: bytes) -> None:
        match read_packet(first, body, self.level):
            case Publish() as message:
                self._on_publish(message)
            case Puback(packet_id):
                self.to_client += self._outgoing.acknowledged(packet_id, self._now_ms())
            case SubscribePacket() as packet:
                self._on_subscribe(packet)
            case UnsubscribePacket() as packet:
                self._on_unsubscribe(packet)
            case Pingreq():
                self.to_client += writing.PINGRESP
            case DisconnectPacket() as packet:
                self._on_disconnect(packet)
            case _:
                raise wrong("a second CONNECT")

    def _on_publish(self, message: Publish) -> None:
        message = checked_wildcards(self._aliases.resolved(message))
        if message.qos == 2:
            raise MqttError(Reason.QOS, NO_QOS_2)
        if message.qos and len(self._unanswered) >= RECEIVE_MAXIMUM:
            raise MqttError(
                Reason.RECEIVE_MAXIMUM, f"more than {RECEIVE_MAXIMUM} messages not acknowledged"
            )
        try:
            self._publish(message)
        except MqttError as error:
            self._refuse(message.packet_id, error.reason, str(error))

    def _publish(self, message: Publish) -> None:
        body = event_of(message, self._publisher, self._sequence + 1, self._wall_ns())
        self._sequence += 1
        self.to_broker += frame(EVENT, body)
        if message.qos:
            self._unanswered[self._sequence] = message.packet_id

    def _on_subscribe(self, packet: SubscribePacket) -> None:
        if self._wishes.is_crowded:
            raise MqttError(Reason.QUOTA, "too many SUBSCRIBE packets that are not answered yet")
        answer = self._wishes.begin(packet)
        for at, wish in enumerate(packet.wishes):
            try:
                text, group = split_share(wish.filter)
            except TopicError as error:
                code = self._suback_code(Reason.TOPIC_FILTER)
                self._wishes.refuse(answer, at, code, str(error))
                continue
            number, is_new = self._wishes.want(answer, at, wish, packet.identifier)
            # Who shares a subscription gets no retained values: MQTT 5, section 4.8.2.
            with_values = group is None and (wish.handling == 0 or (wish.handling == 1 and is_new))
            self._say(Subscribe(number, Ask(text, group=group), with_values))
        self._answer_subscribers()

    def _on_unsubscribe(self, packet: UnsubscribePacket) -> None:
        codes: list[int] = []
        for text in packet.filters:
            number = self._wishes.drop(text)
            codes.append(Reason.NO_SUBSCRIPTION if number is None else Reason.SUCCESS)
            if number is not None:
                self._say(Unsubscribe(number))
        self._answer_subscribers()
        self.to_client += writing.unsuback(packet.packet_id, self.level, codes)

    def _on_disconnect(self, packet: DisconnectPacket) -> None:
        if packet.session_expiry_s and not self._session_expiry:
            raise wrong("a session that was to end with its connection is to last longer")
        self.is_over = True
        if packet.reason != Reason.WITH_WILL:
            self._will = None

    # ── from the broker ───────────────────────────────────────────────────────────────────────

    def tell(self, data: bytes | bytearray | memoryview) -> None:
        """Take what the broker says to this client of its."""
        self._frames.feed(bytes(data))
        for run in self._frames.runs():
            if run.kind == DELIVERY:
                for start, end in pairwise(run.bounds):
                    at = start + HEADER.size
                    self._deliver(
                        *read_delivery(run.data, at=at, end=end, on_unreadable=self._on_unreadable)
                    )
            elif run.kind == CONTROL:
                for body in run.bodies():
                    self._hear(body)

    def _hear(self, body: bytes) -> None:
        if not self._is_attached:
            try:
                greeting = GREETINGS.decode(body)
            except CodecError:
                pass
            else:
                if isinstance(greeting, Refusal):
                    self._turn_away(greeting)
                return
        match CLIENT_CODEC.decode(body):
            case Attached():
                self._is_attached = True
                properties = self._greeted.properties
                self.to_client += writing.connack(Reason.SUCCESS, self.level, properties)
            case Accepted(link_class, sequence):
                self._accept(link_class, sequence)
            case EventRefused(_, sequence, reason):
                packet_id = self._unanswered.pop(sequence, 0)
                denied = Reason.NOT_AUTHORIZED if is_denial(reason) else Reason.QUOTA
                self._refuse(packet_id, denied, reason)
            case Subscribed(number):
                self._wishes.decided(number, None)
                self._answer_subscribers()
            case SubscriptionRefused(number, reason):
                self._on_refused(number, reason)
            case KeepAlive(token, answer) if not answer:
                self._say(KeepAlive(token, answer=True))
            case Leaving():
                self.cut_off(Reason.SHUTTING_DOWN, "this broker leaves; connect to another one")

    def _turn_away(self, refusal: Refusal) -> None:
        reason = Reason.BUSY if refusal.reason is Refused.BUSY else Reason.UNAVAILABLE
        told = writing.told(refusal.detail)
        self.to_client += writing.connack(reason, self.level, told)
        self.is_over = True
        self._will = None  # it was never taken

    def _accept(self, link_class: LinkClass, sequence: int) -> None:
        for each in [each for each in self._unanswered if each <= sequence]:
            self.to_client += writing.puback(self._unanswered.pop(each), self.level)

    def _refuse(self, packet_id: int, reason: int, why: str) -> None:
        """A message is not taken: MQTT 3.1.1 has no way to say so, MQTT 5 only with QoS 1.

        Of MQTT 3.1.1 one that can never be taken is acknowledged, as it would be sent again for
        ever, and any other ends the connection, so that the client sends it again.
        """
        if not packet_id:
            self.refused += 1
        elif self.level == MQTT_5:
            told = why if self._tells_why else ""
            self.to_client += writing.puback(packet_id, self.level, reason, told)
        elif reason in (Reason.NOT_AUTHORIZED, Reason.TOPIC_NAME) or why.startswith(TOO_LARGE):
            self.refused += 1
            self.to_client += writing.puback(packet_id, self.level)
        else:
            self.is_over = True

    def _on_refused(self, number: int, reason: str) -> None:
        for served in self._wishes.of((number,)):
            if served.is_decided:  # it was served, and what the client may do has changed
                self.cut_off(Reason.NOT_AUTHORIZED, reason)
                return
        code = code_of(reason, is_denied=is_denial(reason))
        self._wishes.decided(number, reason, self._suback_code(code))
        self._answer_subscribers()

    def _suback_code(self, code: int) -> int:
        return code if self.level == MQTT_5 else SUBSCRIPTION_FAILED

    def _answer_subscribers(self) -> None:
        for answer in self._wishes.answers():
            told = answer.why if self._tells_why else ""
            self.to_client += writing.suback(answer.packet_id, self.level, answer.codes, told)

    # ── deliveries ────────────────────────────────────────────────────────────────────────────

    def _on_unreadable(self, problem: CodecError) -> None:
        self.unmapped += 1

    def _deliver(self, numbers: tuple[int, ...], events: list[Event]) -> None:
        served = self._wishes.of(numbers)
        now_ms = self._now_ms()
        for event in events:
            is_own = event.publisher == self._uid
            wanted = [each for each in served if not (is_own and each.wish.no_local)]
            if not wanted:
                continue
            qos = max(min(each.wish.qos, 1) for each in wanted)
            as_published = event.retain and any(each.wish.as_published for each in wanted)
            is_5 = self.level == MQTT_5
            message = Publish(
                event.topic,
                event.payload,
                0 if event.at_most_once else qos,
                event.retained or as_published,
                properties=properties_of(event) if is_5 else NONE,
                subscription_ids=tuple(each.identifier for each in wanted if each.identifier),
            )
            self.to_client += self._outgoing.send(message, event.ends_unix_ms, now_ms)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def cut_off(self, reason: int, why: str) -> None:
        """End the connection, and say why where MQTT can."""
        if not self.is_over:
            self.to_client += writing.disconnect(reason, self.level, why)
            self.is_over = True
            self.ended_for = (reason, why)

    def take_will(self) -> None:
        """The client goes: publish what it wanted to have published, if it goes without a word."""
        will, self._will = self._will, None
        if will is not None:
            try:
                self._publish(will.message)
            except MqttError:
                self.refused += 1

    def _now_ms(self) -> int:
        return self._wall_ns() // 1_000_000

    def _say(self, message: Message) -> None:
        self.to_broker += CLIENT_CODEC.encode(message)
