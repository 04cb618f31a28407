"""Shared subscriptions of MQTT (MQTT 5, section 4.8.2) are queue groups here. Pure.

For example, ``$share/workers/orders/+`` is the filter ``orders/+`` in the queue group ``workers``:
of its members, of whatever protocol, one gets each event.
"""

from __future__ import annotations

from ges.errors import TopicError
from ges.wire.topics import check_filter, check_queue
from overlay.errors import ConfigError

SHARE = "$share/"


def split_share(text: str) -> tuple[str, str | None]:
    """Return the filter of a subscription and the queue group that it is in; None: it is in none.

    Raises:
        TopicError: the filter is none, or the group has a name that none can have.
    """
    if not text.startswith(SHARE):
        return check_filter(text), None
    group, slash, rest = text[len(SHARE) :].partition("/")
    if not group or not slash or not rest:
        raise TopicError(f"filter {text!r}: a shared subscription is $share/GROUP/FILTER")
    if "+" in group or "#" in group:
        raise TopicError(f"filter {text!r}: the name of a group has no wildcard in it")
    try:
        check_queue(group)
    except ConfigError as error:
        raise TopicError(f"filter {text!r}: {error}") from None
    return check_filter(rest), group
