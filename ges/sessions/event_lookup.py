"""What this broker still knows of one event, told to a client that asks.

It looks into the log of what was published here, and at how far the order of its publisher has
come. Nothing is kept for this.
"""

from __future__ import annotations

from ges.gateways.next_hops import bits
from ges.sessions.session import Session
from ges.stack import Stack
from ges.wire.replies import why_not_to_be_read
from ges.wire.why_event import (
    MAX_LIVES_TOLD,
    EdgeState,
    LoggedEvent,
    PassedEvent,
    WhyEvent,
    WhyEventRequest,
)


def look_up(stack: Stack, asker: Session, request: WhyEventRequest) -> WhyEvent:
    """Return what is known of an event.

    Its topic and whom it was for are shown to a client that may subscribe to the topic; those of a
    secure event only over a secure hop.
    """
    publisher, link_class = bytes.fromhex(request.publisher), request.link_class
    now, permissions = stack.now(), asker.admission.permissions
    withheld: str | None = None
    logged: list[LoggedEvent] = []
    for found in stack.recalls.log.find(publisher, link_class, request.sequence, now):
        if len(logged) == MAX_LIVES_TOLD:
            break
        topic = found.topic.decode()
        reason = None
        if link_class.is_secret and not asker.secure:
            reason = "the hop from the broker to this client is not secure"
        elif why_not_to_be_read(topic, asker.uid) is not None:
            reason = "it is a reply to another client"
        elif permissions is not None and not permissions.subscribe(topic).allowed:
            reason = "no rule lets this client subscribe to its topic"
        withheld = withheld or reason
        to_all = found.destinations < 0
        slots = tuple(bits(found.destinations)) if not to_all and reason is None else ()
        age_ms = (now - found.at) // 1_000_000
        shown = topic if reason is None else None
        trace = found.traceparent if reason is None else ""
        logged.append(LoggedEvent(found.incarnation, age_ms, shown, to_all, slots, trace))
    passed = [
        PassedEvent(incarnation, EdgeState(state))
        for incarnation, state in stack.ordering.look_up(publisher, link_class, request.sequence)
    ][:MAX_LIVES_TOLD]
    peer, slot = stack.node.peer, stack.node.gateways.slot
    return WhyEvent(peer.uid, peer.url, slot, tuple(logged), tuple(passed), withheld)
