"""``chordal why PUBLISHER:SEQUENCE``: what became of one event, as it is printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ges.cli.options import tell
from overlay.address import shown
from overlay.errors import ConfigError
from overlay.ids import LinkClass, short
from overlay.wording import counted

if TYPE_CHECKING:
    from ges.operations.find_event import EventName, Trail
    from ges.wire.why_event import WhyEvent

_NAME = re.compile(r"([0-9a-f]{32}):([0-9]{1,18})(?::([a-z]+))?")

_WORDS = {
    "done": "it is done: whoever wants it there has it, unless it was given up as lost",
    "held": "it has come, and waits for earlier events that may be missing",
    "asked": "later events have come, and the broker where it was published is asked for it",
    "never": "neither it nor a later event of its publisher has come there",
}


def event_name(text: str, link_class: LinkClass) -> EventName | None:
    """Return the event that a text names; None: it is a topic.

    Raises:
        ConfigError: it names an event that no broker keeps anything of.
    """
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    from ges.operations.find_event import EventName

    publisher, number, its_class = found.groups()
    if its_class is not None:
        if its_class not in list(LinkClass):
            raise ConfigError(f"{text}: the class is normal or secure, not {its_class}")
        link_class = LinkClass(its_class)
    if link_class.is_timed:
        raise ConfigError(f"{text}: brokers keep nothing of express events")
    if int(number) == 0:
        raise ConfigError(f"{text}: the events of a publisher are numbered from 1")
    return EventName(publisher, int(number), link_class)


def destinations(trail: Trail) -> list[WhyEvent]:
    """Return the brokers that the event was for, as far as they were asked.

    The one where it was published is among them if it has served it to clients of its own.
    """
    sources = trail.sources
    slots = {slot for source in sources for slot in source.event.slots}
    at = {source.answer.broker for source in sources}
    to_all = any(source.event.to_all for source in sources)
    return [
        each
        for each in trail.answers
        if (to_all or each.slot in slots)
        and not (each.broker in at and trail.state_at(each) == "never")
    ]


def is_done(trail: Trail) -> bool:
    """Say whether the event is found, and done wherever it was for."""
    is_found = bool(trail.sources) and not trail.silent and not trail.walk.is_partial
    is_shown = all(source.answer.withheld is None for source in trail.sources)
    return (is_found and is_shown) and all(
        trail.state_at(each) == "done" for each in destinations(trail)
    )


def tell_trail(trail: Trail, name: EventName) -> None:
    """Print it for people."""
    tell(f"{name.link_class.value} event {name.sequence} of publisher {name.publisher}")
    if not trail.sources:
        tell(
            f"none of {counted(len(trail.answers), 'broker')} has it in its log, where events are "
            "kept for up to 10 s"
        )
        for each in trail.answers:
            if (state := trail.state_at(each)) != "never":
                tell(f"  broker {short(each.broker)} ({shown(each.url)}): {_WORDS[state]}")
    for source in trail.sources:
        event, answer = source.event, source.answer
        topic = f" on '{event.topic}'" if event.topic is not None else ""
        tell(
            f"published at broker {short(answer.broker)} ({shown(answer.url)}) "
            f"{event.age_ms / 1000:.1f} s ago{topic}"
        )
        if event.traceparent:
            tell(f"  traceparent {event.traceparent}")
        if answer.withheld is not None:
            tell(f"  topic and destinations are not shown: {answer.withheld}")
    if trail.sources:
        found = destinations(trail)
        for each in found:
            words = _WORDS[trail.state_at(each)]
            tell(f"for broker {short(each.broker)} ({shown(each.url)}): {words}")
        if not found and all(source.answer.withheld is None for source in trail.sources):
            tell("it was for nobody")
    for uid, problem in trail.silent.items():
        tell(f"broker {short(uid)} does not say: {problem}")


def as_json(trail: Trail, name: EventName) -> dict[str, Any]:
    """Return it for machines."""
    wanted = {each.broker for each in destinations(trail)}
    return {
        "publisher": name.publisher,
        "sequence": name.sequence,
        "class": name.link_class.value,
        "published": [
            {
                "broker": source.answer.broker,
                "age_s": source.event.age_ms / 1000,
                "topic": source.event.topic,
                "traceparent": source.event.traceparent or None,
                "to_all": source.event.to_all,
                "withheld": source.answer.withheld,
            }
            for source in trail.sources
        ],
        "brokers": [
            {
                "uid": each.broker,
                "url": each.url,
                "is_for": each.broker in wanted,
                "state": str(trail.state_at(each)),
            }
            for each in trail.answers
        ],
        "silent": trail.silent,
    }
