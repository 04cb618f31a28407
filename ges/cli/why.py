"""``chordal why``: where an event would go, and because of what."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ges.cli import why_event
from ges.cli.connection import Connection
from ges.cli.options import (
    CLASSES,
    client_options,
    event_realm_option,
    json_option,
    run_async,
    tell,
    token_option,
    warn_of_partial,
)
from ges.cli.why_queues import as_row, in_queue, in_words, shown_filter
from ges.wire.realms import Realm, name_of
from ges.wire.topics import check_topic
from overlay.address import shown
from overlay.ids import LinkClass, parse_uid, short
from overlay.wording import counted

if TYPE_CHECKING:
    from ges.operations.explain import Destination, Explanation
    from ges.operations.find_event import EventName
    from ges.wire.why import WhyAsk, WhyClient, WhyMember, WhyUnit

MAX_NAMED = 8  #: brokers in one line


@click.command()
@click.argument("topic", metavar="TOPIC|PUBLISHER:SEQUENCE[:CLASS]")
@click.option(
    "--class",
    "link_class",
    type=CLASSES,
    default=LinkClass.NORMAL.value,
    show_default=True,
    help="Class of the event.",
)
@event_realm_option
@click.option("--subscriber", metavar="UID", help="Only this client: why it would not get it.")
@json_option
@token_option
@client_options
def why(
    topic: str,
    link_class: str,
    realm: str,
    subscriber: str | None,
    as_json: bool,
    connection: Connection,
) -> int:
    """Say where an event on TOPIC would go if it were published at the broker given, and why.

    The broker says which brokers the event would be for, because of what they want, and by which
    links it would go there. Each of those is asked which of its clients get it. Nothing is
    published. The exit code is 1 if the event would be refused, or does not reach a broker that it
    is for, or if the client named would not get it.

    PUBLISHER:SEQUENCE, as 'chordal sub --json' shows them, is an event that was published. All
    brokers are asked which of them still has it in its log, whom it was for, and what became of it
    there. The exit code is 1 if it is not found, or not done everywhere.
    """
    from ges.operations.explain import Question, explain

    name = why_event.event_name(topic, LinkClass(link_class))
    if name is not None:
        if subscriber is not None:
            raise click.UsageError("--subscriber is for a topic, not for one event")
        return _find(connection, name, as_json=as_json)

    check_topic(topic)  # before a broker is looked for
    question = Question(
        topic,
        LinkClass(link_class),
        parse_uid(subscriber) if subscriber is not None else None,
        connection.identity,
        connection.overlay,
        connection.token,
        realm,
    )
    found = run_async(
        explain,
        connection.urls,
        question,
        timeout_s=connection.timeout,
        on_waiting=connection.on_waiting,
    )
    if as_json:
        click.echo(json.dumps(_as_json(found)))  # in ASCII: nothing that does not show
    elif subscriber is not None:
        _tell_of_subscriber(found, subscriber)
    else:
        _tell(found)
    return 0 if _is_fine(found, subscriber) else 1


def _find(connection: Connection, name: EventName, *, as_json: bool) -> int:
    """Tell what became of an event."""
    from ges.operations.find_event import find_event

    trail = run_async(
        find_event,
        connection.urls,
        name,
        identity=connection.identity,
        overlay=connection.overlay,
        token=connection.token,
        timeout_s=connection.timeout,
        on_waiting=connection.on_waiting,
    )
    warn_of_partial(trail.walk)
    if as_json:
        click.echo(json.dumps(why_event.as_json(trail, name)))
    else:
        why_event.tell_trail(trail, name)
    return 0 if why_event.is_done(trail) else 1


def _is_fine(found: Explanation, subscriber: str | None) -> bool:
    if found.entry.refusal is not None:
        return False
    if subscriber is not None:
        clients = [c for d in _reached(found) if d.answer for c in d.answer.clients]
        return any(client.problem is None for client in clients)
    return not any(d.problem or (d.member and d.member.problem) for d in found.destinations)


def _reached(found: Explanation) -> list[Destination]:
    """Return the brokers where the event would come to."""
    return [
        each
        for each in found.destinations
        if each.member is None or found.entry.to_all or (each.member.is_for and not _lost(each))
    ]


def _lost(destination: Destination) -> bool:
    return destination.member is not None and destination.member.problem is not None


# ── for people ────────────────────────────────────────────────────────────────────────────────


def _tell(found: Explanation) -> None:
    _tell_entry(found)
    for destination in found.destinations:
        _tell_destination(found, destination)
    passed_over = {slot for group in found.entry.groups for slot in group.others}
    for others, reason in (
        ([m for m in found.others if m.slot not in passed_over], "where nobody wants it"),
        ([m for m in found.others if m.slot in passed_over], "as others serve the queue"),
    ):
        if others:
            names = ", ".join(short(member.uid) for member in others[:MAX_NAMED])
            more = f" and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
            tell(f"not for {counted(len(others), 'broker')}, {reason}: {names}{more}")
    _tell_units(found)


def _tell_units(found: Explanation) -> None:
    """Tell which other units the event would go into, and which not."""
    spared = []
    for unit in found.entry.units:
        if not unit.is_for:
            spared.append(unit.name)
            continue
        wants = ", ".join(f"'{each.filter}'" for each in unit.asks if each.filter is not None)
        reason = f"it wants {wants}" if wants else "somebody in there wants it"
        if unit.is_unknown:
            reason = "it has not said yet what is wanted there, so it gets everything"
        tell(f"unit {unit.name}: {reason}")
        if unit.problem is not None:
            tell(f"  not reached: {unit.problem}")
        elif unit.next_uid is not None:
            where = f" ({shown(unit.next_url)})" if unit.next_url is not None else ""
            more = ", which finds out who wants it in there" if unit.is_gate else ""
            tell(f"  by {short(unit.next_uid)}{where}{more}")
    if spared:
        names = ", ".join(spared[:MAX_NAMED])
        more = f" and {len(spared) - MAX_NAMED} more" if len(spared) > MAX_NAMED else ""
        tell(f"not for {counted(len(spared), 'unit')}, where nobody wants it: {names}{more}")


def _tell_entry(found: Explanation) -> None:
    entry = found.entry
    tell(
        f"{entry.link_class.value} event on '{entry.topic}', published at broker "
        f"{short(entry.broker)} ({shown(entry.url)})"
    )
    if entry.refusal is not None:
        tell(f"  it would be refused: {entry.refusal}")
    if entry.to_all:
        tell("  it goes to every broker, as units change or not all of them have a slot")
    if entry.withheld is not None:
        tell(f"  filters and clients are not shown: {entry.withheld}")
    for group in entry.groups:
        tell(f"  {in_words(found, group)}")


def _tell_destination(found: Explanation, destination: Destination) -> None:
    member = destination.member
    if member is None:
        tell(f"broker {short(destination.uid)}, where it is published")
    else:
        tell(f"broker {short(destination.uid)} ({shown(destination.url)}){_reason(member)}")
        if member.path:
            tell(f"  by {_way(found, member)}")
        if member.problem is not None:
            tell(f"  not reached: {member.problem}")
    answer = destination.answer
    if answer is None:
        tell(f"  its clients are not known: {destination.problem}")
        return
    if answer.withheld is not None:
        tell("  its clients are not shown")
        return
    for client in answer.clients:
        tell(f"  client {client.uid}{_client_filters(client)}")
        if client.problem is not None:
            tell(f"    {client.problem}")
    told = len(answer.clients)
    if answer.client_count > told:
        tell(f"  {counted(answer.client_count - told, 'client')} {'more' if told else 'here'}")
    elif not told:
        tell("  no client there gets it")


def _reason(member: WhyMember) -> str:
    if member.is_unknown and not member.asks:
        return ": it is not known yet what is wanted there, so it gets everything"
    if not member.asks:
        return ": it wants this, by a filter that was not found in time" if member.is_for else ""
    more = ", and maybe more" if member.has_more else ""
    return f": it wants {', '.join(map(_ask, member.asks))}{more}"


def _ask(ask: WhyAsk) -> str:
    classes = "" if len(ask.classes) == len(LinkClass) else f" ({', '.join(ask.classes)})"
    more = f"{in_queue(ask.group)}{_kept_to(ask.realm)}{classes}"
    return f"{shown_filter(ask.filter)}{more}"


def _kept_to(realm: int) -> str:
    return "" if realm == Realm.ALL else f" of its own {name_of(realm)}"


def _client_filters(client: WhyClient) -> str:
    if not client.filters:
        return ""
    filters = [
        shown_filter(each.filter)
        + in_queue(each.group)
        + _kept_to(each.realm)
        + (f" ({each.link_class.value} only)" if each.link_class else "")
        for each in client.filters
    ]
    return f" has {', '.join(filters)}{', and more' if client.has_more else ''}"


def _way(found: Explanation, member: WhyMember) -> str:
    words = [short(found.entry.broker)]
    for hop in _hops(found, member):
        cipher = f", {hop['cipher']}" if hop["cipher"] else ""
        words.append(f"-> {short(hop['uid'])} ({hop['class']}{cipher})")
    return " ".join(words)


def _tell_of_subscriber(found: Explanation, subscriber: str) -> None:
    _tell_entry(found)
    is_met = False
    for destination in found.destinations:
        clients = destination.answer.clients if destination.answer is not None else ()
        for client in clients:
            is_met = True
            _tell_client(found, destination, client)
    for destination in found.destinations:
        if destination.answer is None:
            tell(f"broker {short(destination.uid)} does not say: {destination.problem}")
    if not is_met and found.entry.withheld is None:
        tell(f"client {subscriber} is not attached to any broker that was asked")


def _tell_client(found: Explanation, destination: Destination, client: WhyClient) -> None:
    member = destination.member
    tell(f"client {client.uid} at broker {short(destination.uid)}{_client_filters(client)}")
    if member is not None and member.path:
        tell(f"  the event comes there by {_way(found, member)}")
    if client.problem is not None:
        tell(f"  it would not get the event now: {client.problem}")
    elif destination not in _reached(found):
        unasked = "the broker where it is published does not know of that filter yet"
        why_not = member.problem if member is not None and member.problem else unasked
        tell(f"  it would not get the event: {why_not}")
    else:
        tell("  it would get the event")


# ── for machines ──────────────────────────────────────────────────────────────────────────────


def _hops(found: Explanation, member: WhyMember) -> list[dict[str, Any]]:
    hops, here = [], found.entry.broker
    for hop in member.path:
        there = found.members.get(hop.slot)
        uid = there.uid if there is not None else "?"
        cipher = found.ciphers.get((here, uid, hop.link_class))
        hops.append({"uid": uid, "class": hop.link_class.value, "cipher": cipher})
        here = uid
    return hops


def _as_json(found: Explanation) -> dict[str, Any]:
    entry = found.entry
    return {
        "topic": entry.topic,
        "class": entry.link_class.value,
        "broker": entry.broker,
        "url": entry.url,
        "to_all": entry.to_all,
        "refusal": entry.refusal,
        "withheld": entry.withheld,
        "queues": [as_row(found, group) for group in entry.groups],
        "brokers": [_broker(found, each) for each in found.destinations],
        "not_for": [member.uid for member in found.others],
        "units": [_unit(each) for each in entry.units],
    }


def _realm_of(realm: int) -> dict[str, str]:
    return {} if realm == Realm.ALL else {"realm": name_of(realm)}


def _unit(unit: WhyUnit) -> dict[str, Any]:
    return {
        "unit": unit.name,
        "is_for": unit.is_for,
        "unknown": unit.is_unknown,
        "asks": [each.filter for each in unit.asks],
        "next": unit.next_uid,
        "next_url": unit.next_url,
        "problem": unit.problem,
    }


def _broker(found: Explanation, destination: Destination) -> dict[str, Any]:
    member, answer = destination.member, destination.answer
    asks = [
        {
            "filter": each.filter,
            "queue": each.group,
            **_realm_of(each.realm),
            "classes": [c.value for c in each.classes],
        }
        for each in (member.asks if member is not None else ())
    ]
    return {
        "uid": destination.uid,
        "url": destination.url,
        "is_for": member is None or member.is_for or found.entry.to_all,
        "unknown": member is not None and member.is_unknown,
        "asks": asks,
        "hops": _hops(found, member) if member is not None else [],
        "problem": member.problem if member is not None else None,
        "answers": answer is not None,
        "silence": destination.problem or None,
        "clients": [
            {
                "uid": client.uid,
                "filters": [
                    {
                        "filter": f.filter,
                        "queue": f.group,
                        **_realm_of(f.realm),
                        "class": f.link_class.value if f.link_class else None,
                    }
                    for f in client.filters
                ],
                "problem": client.problem,
            }
            for client in (answer.clients if answer is not None else ())
        ],
        "client_count": answer.client_count if answer is not None and not answer.withheld else None,
    }
