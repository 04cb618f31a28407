"""What a client tells the broker that it moves to, so as to get what it has missed. Pure.

It says of each publisher which event it had last, and for how long it has had each subscription
(:mod:`ges.delivery.replay` says what the broker makes of it). That may be too much for one message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ges.wire.client_messages import Mark, Resubscribe, Resubscription, Subscribe

MARKS_EACH = 512  #: in one message, of less than 50 bytes each
FILTER_BYTES_EACH = 24 * 1024  #: in one message, the largest filter more at most
ENTRY_BYTES = 32  #: of a subscription in a message, beside its filter
#: Added to the age of a subscription, as the message is under way for a while. So a client rather
#: gets an event from just before it subscribed than misses one from just after.
SLACK_SECONDS = 0.25
MAX_AGE_MS = 2**32 - 1
MILLIS_PER_SECOND = 1000


def resume(
    requests: Iterable[tuple[Subscribe, float]], marks: Iterable[Mark]
) -> Iterator[Resubscribe]:
    """Yield the messages, at least one.

    Args:
        requests: subscriptions, and for how many seconds they have been served.
        marks: the last event of each publisher.
    """
    known, waiting = list(marks), list(_resubscriptions(requests))
    while True:
        size = count = 0
        while count < len(waiting) and size < FILTER_BYTES_EACH:
            size += ENTRY_BYTES + len(waiting[count].ask.filter.encode())
            count += 1
        message = Resubscribe(
            tuple(known[:MARKS_EACH]),
            tuple(waiting[:count]),
            more=len(known) > MARKS_EACH or len(waiting) > count,
        )
        yield message
        if not message.more:
            return
        del known[:MARKS_EACH]
        del waiting[:count]


def _resubscriptions(requests: Iterable[tuple[Subscribe, float]]) -> Iterator[Resubscription]:
    for request, seconds in requests:
        age_ms = min(MAX_AGE_MS, max(0, int((seconds + SLACK_SECONDS) * MILLIS_PER_SECOND)))
        yield Resubscription(request.number, request.ask, age_ms)
