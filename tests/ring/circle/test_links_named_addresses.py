"""Addresses that others name: a broker calls there, as it must, but only so many at once."""

from __future__ import annotations

import pytest

from overlay.ids import Peer
from overlay.machine import Message, Refused
from ring.circle.links import MAX_OPENING
from ring.wire import messages
from ring.wire.messages import DetourOpen, Member, Relay
from ring.wire.relay import wrap
from tests.helpers.bench import Bench, member, opened

IDS = (100, 200, 300, 400, 500, 600)
LIAR = member(400)
MANY = 2000


def named(number: int) -> Member:
    """Somebody who is not there."""
    return Member(Peer(f"{10**6 + number:032x}", 1, f"chordal://victim{number}:22"), 1000 + number)


def question(number: int) -> Message:
    return messages.TestNeighbour(named(number))


@pytest.fixture
def bench() -> Bench:
    return Bench.on_ring(IDS, 300)


def test_so_many_at_once(bench: Bench) -> None:
    called = [n for n in range(MANY) if opened(bench.receive(LIAR, question(n)))]
    assert called == list(range(MAX_OPENING))


def test_one_that_has_ended_makes_room_for_another(bench: Bench) -> None:
    for number in range(MANY):
        bench.receive(LIAR, question(number))
    bench.refused(named(0), Refused.TIMEOUT)
    assert opened(bench.receive(LIAR, question(MANY))) == [named(MANY).peer.url]
    assert opened(bench.receive(LIAR, question(MANY + 1))) == []


def test_who_talks_through_others_is_not_called_for_it(bench: Bench) -> None:
    """A relay names its sender, and whoever passes it on can make one up."""
    called = []
    for number in range(MANY):
        sender = named(number)
        path = (sender.uid, LIAR.uid, member(300).uid)
        relay = wrap(sender.peer, path, DetourOpen(sender.ring_id, 0))
        assert relay is not None
        effects = bench.receive(LIAR, Relay(relay.path, 2, relay.sender, relay.body))
        called += opened(effects)
    called += opened(bench.wait(5, [member(other) for other in IDS]))
    assert called == []
