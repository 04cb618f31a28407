"""Errors of the ges package.

::

    ChordalError
    └── EventError
        ├── TopicError          a topic or filter is malformed (also a ConfigError)
        ├── PublishRefused      the broker did not take an event: it definitely was not delivered
        ├── SubscribeRefused    the broker did not take a subscription
        ├── SpreadRefused       the broker did not take a list of revoked identities
        └── ConnectionLost      the broker is gone; an unconfirmed event may or may not be delivered
"""

from __future__ import annotations

from overlay.errors import ChordalError, ConfigError


class EventError(ChordalError):
    """Root of the event service's errors."""


class TopicError(EventError, ConfigError):
    """A topic or a filter is malformed; the text says where and shows a right one."""


class PublishRefused(EventError):
    """The broker refused an event; it was not delivered to anybody."""


class SubscribeRefused(EventError):
    """The broker refused a subscription."""


class SpreadRefused(EventError):
    """The broker does not take a list of revoked identities."""


class ConnectionLost(EventError):
    """No broker can be reached, or the one that was went away before it answered."""
