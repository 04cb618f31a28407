"""Where an event would go, and why: asked of the broker where it enters, and of those it is for.

The broker given says which brokers the event would be for, and by which paths
(:mod:`ges.wire.why`). Each of those says which of its clients get it. So the answer is put together
from what the brokers themselves go by, and nothing is published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from ges.client import Client, connect
from ges.operations.walk import PATIENCE_S, call_url, walk_ring
from ges.wire.why import Why, WhyMember
from overlay.address import parse_url
from overlay.errors import ChordalError
from overlay.ids import LinkClass
from overlay.wording import printable

MAX_AT_ONCE = 8  #: brokers that are asked at the same time

#: Ciphers by the broker that says so, the one at the other end, and the class of the link.
Ciphers = Mapping[tuple[str, str, LinkClass], str | None]


@dataclass(frozen=True, slots=True)
class Destination:
    """A broker that was asked for its clients."""

    uid: str
    url: str
    member: WhyMember | None  #: what the broker of entry says of it; None: that is this broker
    answer: Why | None  #: what it says itself; None: it does not answer
    problem: str = ""  #: why not


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would become of an event."""

    entry: Why
    destinations: tuple[Destination, ...]  #: the broker of entry first
    others: tuple[WhyMember, ...]  #: members that it would not go to
    members: Mapping[int, WhyMember]  #: all, by slot
    ciphers: Ciphers


@dataclass(frozen=True, slots=True)
class Question:
    """An event that nobody publishes, and how brokers are asked about it."""

    topic: str
    link_class: LinkClass = LinkClass.NORMAL
    subscriber: str | None = None  #: only about this client, wherever it is attached
    identity: Path | None = None
    overlay: str = "chordal"
    token: str | None = None
    realm: str = "all"  #: of the event


async def explain(
    url: str,
    question: Question,
    *,
    timeout_s: float = 10,
    on_waiting: Callable[[str], None] | None = None,
) -> Explanation:
    """Ask the broker at ``url``, and then those the event would be for.

    With a subscriber all brokers are asked, as it may be attached anywhere.

    Raises:
        TopicError: the topic is malformed.
        ConnectionLost: the first broker cannot be reached.
    """
    ciphers: dict[tuple[str, str, LinkClass], str | None] = {}
    async with _attached(url, question, timeout_s, on_waiting) as client:
        entry = await client.why(
            question.topic,
            link_class=question.link_class,
            subscriber=question.subscriber,
            realm=question.realm,
        )
        await _note_ciphers(client, ciphers)
        url = client.broker_url
    tls = parse_url(url).tls
    members = {member.slot: member for member in entry.members}
    others = [m for m in entry.members if not m.is_for and m.uid != entry.broker]
    wanted = [m for m in entry.members if m.is_for]
    to_ask = [(m.uid, m.url, m) for m in wanted]
    if entry.to_all:
        walk = await walk_ring(
            url, identity=question.identity, overlay=question.overlay, timeout_s=timeout_s
        )
        known = {m.uid: m for m in others}
        to_ask = [
            (status.uid, status.url, known.get(status.uid) or WhyMember(0, status.uid, status.url))
            for status in walk.brokers
            if status.uid != entry.broker
        ]
        others = []
    elif question.subscriber is not None:
        to_ask += [(m.uid, m.url, m) for m in others]
    relays = {hop.slot for m in wanted for hop in m.path[:-1]}
    relay_uids = {members[slot].uid for slot in relays if slot in members}
    answers: dict[str, Destination] = {}
    limit = trio.CapacityLimiter(MAX_AT_ONCE)

    async def ask(uid: str, its_url: str, member: WhyMember, *, for_clients: bool) -> None:
        async with limit:
            answer, problem = None, ""
            try:
                if (target := call_url(its_url, tls)) is None:
                    raise ChordalError(f"{its_url!r} is not a broker URL")
                with trio.fail_after(PATIENCE_S):
                    async with _attached(target, question, PATIENCE_S) as client:
                        if for_clients:
                            answer = await client.why(
                                question.topic,
                                link_class=question.link_class,
                                subscriber=question.subscriber,
                                clients_only=True,
                                realm=question.realm,
                            )
                        if uid in relay_uids:
                            await _note_ciphers(client, ciphers)
            except trio.TooSlowError:
                problem = f"no answer within {PATIENCE_S:g} s"
            except ChordalError as error:
                problem = printable(str(error))
            if answer is not None and answer.broker != uid:
                answer, problem = None, "another broker answers there"
            if for_clients:
                answers[uid] = Destination(uid, its_url, member, answer, problem)

    asked = {uid for uid, _, _ in to_ask}
    async with trio.open_nursery() as nursery:
        for uid, its_url, member in to_ask:
            nursery.start_soon(partial(ask, for_clients=True), uid, its_url, member)
        for member in others:
            if member.uid in relay_uids - asked:
                about = (member.uid, member.url, member)
                nursery.start_soon(partial(ask, for_clients=False), *about)
    first = Destination(entry.broker, entry.url, None, entry)
    found = (first, *(answers[uid] for uid, _, _ in to_ask))
    return Explanation(entry, found, tuple(others), members, ciphers)


def _attached(
    url: str,
    question: Question,
    timeout_s: float,
    on_waiting: Callable[[str], None] | None = lambda words: None,
) -> AbstractAsyncContextManager[Client]:
    return connect(
        url,
        identity=question.identity,
        overlay=question.overlay,
        token=question.token,
        timeout=timeout_s,
        reattach=False,
        on_waiting=on_waiting,
    )


async def _note_ciphers(
    client: Client, ciphers: dict[tuple[str, str, LinkClass], str | None]
) -> None:
    status = await client.status()
    for link in status.links:
        ciphers[status.uid, link.uid, link.link_class] = link.cipher
