"""Errors of the ges package.

::

    ChordalError
    ├── SettingsError           settings are wrong, for one reason or several (a ConfigError)
    ├── AccessError             a rule file is wrong (a ConfigError)
    ├── TokenError              a token, or the file that holds some, is wrong (a ConfigError)
    ├── MqttError               an MQTT client broke the protocol (a ProtocolError)
    └── EventError
        ├── TopicError          a topic or filter is malformed (also a ConfigError)
        ├── TraceparentError    a trace context is malformed (also a ConfigError)
        ├── PublishRefused      the broker did not take an event: it definitely was not delivered
        ├── SubscribeRefused    the broker did not take a subscription
        ├── NoResponders        nobody has a subscription that matches a request
        ├── RequestTimedOut     no reply to a request came in time
        ├── ResponderFailed     requests that were to be answered got no reply
        ├── UnitsBroken         units that should be in order are not; ``findings`` says where
        ├── UnitNotJoined       a whole unit has not joined another context
        ├── TooFewEvents        fewer events came in time than were waited for
        ├── BenchFailed         a process of a measurement could not do its part
        ├── ProfileFull         a broker can tell others of no more queue groups
        ├── OperationRefused    the broker does not do what an operator asks
        ├── DrillRefused        a drill would break more than the ring survives
        ├── DrillFailed         a drill could not do its part, or the ring did not become whole
        ├── ProcessFailed       a process that a command has started did not do its part
        ├── DemoFailed          a step of the demo did not show what it should
        ├── SpreadRefused       the broker did not take a list of revoked identities
        ├── ConnectionLost      the broker is gone; an unconfirmed event may or may not be delivered
        ├── ClientClosed        the client is used after its block has ended
        ├── NotUnderTrio        the client for trio is used under another event loop
        ├── NotUnderAsyncio     the client for asyncio is used under another event loop
        └── WrongThread         the blocking client is called by what it has called itself
"""

from __future__ import annotations

from collections.abc import Sequence

from overlay.errors import ChordalError, ConfigError, ProtocolError


class SettingsError(ConfigError):
    """A file of settings or a variable is wrong; ``mistakes`` has a line for each mistake."""

    code = "settings"

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class AccessError(ConfigError):
    """A file of access rules is wrong; the text names file, rule and mend."""

    code = "access-rules"


class TokenError(ConfigError):
    """A token, or a file of tokens, is missing, malformed or open to others."""

    code = "token"


class MqttError(ProtocolError):
    """An MQTT client broke the protocol; ``reason`` is the code that it is told, where it can be.

    Reason codes are those of MQTT 5, section 2.4.
    """

    code = "mqtt"

    def __init__(self, reason: int, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class EventError(ChordalError):
    """Root of the event service's errors."""

    code = "event"


class UnitsBroken(EventError):
    """Units or addresses are wrong; the text has the first finding, ``findings`` has all."""

    code = "units-not-in-order"

    def __init__(self, findings: tuple[str, ...]) -> None:
        number = len(findings)
        more = "" if number == 1 else f"units are wrong, for {number} reasons; the first: "
        super().__init__(more + findings[0])
        self.findings = findings


class UnitNotJoined(EventError):
    """A whole unit has not joined another context: it may not, or not in time."""

    code = "unit-not-joined"


class TopicError(EventError, ConfigError):
    """A topic or a filter is malformed; the text says where and shows a right one."""

    code = "topic"


class TraceparentError(EventError, ConfigError):
    """The trace that an event is to belong to is not named as W3C Trace Context has it."""

    code = "traceparent"


class PublishRefused(EventError):
    """The broker refused an event; it was not delivered to anybody."""

    code = "publish-refused"


class SubscribeRefused(EventError):
    """The broker refused a subscription."""

    code = "subscribe-refused"


class NoResponders(EventError):
    """Nobody in the cluster has a subscription that matches a request; nobody got it."""

    code = "no-responders"


class RequestTimedOut(EventError):
    """No reply to a request has come in time; somebody may have got it, and may still act on it."""

    code = "request-timed-out"


class ResponderFailed(EventError):
    """Requests that were to be answered got no reply, as a command failed or the broker refused."""

    code = "responder-failed"


class TooFewEvents(EventError):
    """Fewer events have come in time than were waited for."""

    code = "too-few-events"


class BenchFailed(EventError):
    """A process of a measurement could not do its part."""

    code = "bench-failed"


class ProfileFull(EventError):
    """A broker has subscribers in so many queue groups that it can tell others of no more."""

    code = "profile-full"


class SpreadRefused(EventError):
    """The broker does not take a list of revoked identities."""

    code = "spread-refused"


class OperationRefused(EventError):
    """The broker does not list its clients, cut one off or drain, and why."""

    code = "operation-refused"


class DrillRefused(EventError):
    """A drill does not begin, or does not go on: the ring is not whole, or survives too little."""

    code = "drill-refused"


class DemoFailed(EventError):
    """A step of the demo did not show what it should; the text says what happened instead."""

    code = "demo-failed"


class ProcessFailed(EventError):
    """A process that a command has started on this machine did not do its part."""

    code = "process-failed"


class DrillFailed(EventError):
    """A drill could not do its part, or the ring did not become whole again in time."""

    code = "drill-failed"


class ConnectionLost(EventError):
    """No broker can be reached, or the one that was went away before it answered."""

    code = "connection-lost"


class ClientClosed(EventError):
    """A client is used after its ``async with connect(...)`` block has ended."""

    code = "client-closed"


class NotUnderTrio(EventError):
    """A client is used under asyncio, or under no event loop; the text says how to run it."""

    code = "not-under-trio"


class NotUnderAsyncio(EventError):
    """A client for asyncio is used under trio, or under no event loop; the text says what to do."""

    code = "not-under-asyncio"


class WrongThread(EventError):
    """A blocking client is called by a function that it has called, and would wait for itself."""

    code = "wrong-thread"


class WrongValue(ConfigError):
    """A setting has a value that it cannot have; the text says what is allowed."""

    code = "setting-value"
