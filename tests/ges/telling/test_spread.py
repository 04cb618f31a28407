"""All members are told once, and who told them learns it."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.telling.spread import (
    GIVE_UP_NS,
    MAX_ORIGINS,
    MAX_RELAYED,
    MAX_TELLS,
    RELAY_WAIT_NS,
    RETRY_NS,
    WINDOW,
)
from ges.wire.link_codec import LINK_CODEC
from ges.wire.telling_messages import MAX_CONTENT_BYTES, TELLING_MESSAGES, TellTaken, Told
from ges.wire.unit_messages import UNIT_MESSAGES
from overlay.ids import NANOS_PER_SECOND
from overlay.machine import Message, Send
from overlay.wire.frames import MAX_CONTROL_BYTES
from tests.helpers.spread_net import KIND, Content, SpreadNet, Teller
from tests.helpers.strategies import largest

NOBODY: frozenset[str] = frozenset()


def counts(net: SpreadNet) -> Counter[str]:
    return Counter(type(message).__name__ for _, _, message in net.sent)


def told(number: int = 1, kind: int = KIND, origin: int = 99, incarnation: int = 1) -> Told:
    content = msgspec.msgpack.encode(Content("news"))
    return Told(f"{origin:032x}", incarnation, number, 0, False, kind, content)


def answers(teller: Teller, message: Told, now: int = 0) -> list[TellTaken]:
    """Have an end of the tree told by its left neighbour; return what it answers."""
    neighbour = next(iter(teller.linked))
    effects = teller.spread.on_told(neighbour, message, now)
    sent = [effect.message for effect in effects if isinstance(effect, Send)]
    return [each for each in sent if isinstance(each, TellTaken)]


def last(n: int = 3) -> Teller:
    """Return the broker with nobody between it and ring id 0."""
    return SpreadNet(n).tellers[-1]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17, 64])
def test_all_take_it_once_with_a_message_and_an_answer_each(n: int) -> None:
    net = SpreadNet(n)
    ends = net.tell(n // 2)
    net.run(RETRY_NS / NANOS_PER_SECOND / 2)
    assert [len(teller.took) for teller in net.tellers] == [1] * (n // 2) + [0] + [1] * (
        n - n // 2 - 1
    )
    assert ends == [NOBODY]
    assert counts(net) == Counter(Told=n - 1, TellTaken=n - 1)
    net.run(60)
    assert counts(net).total() == 2 * (n - 1), "nothing is told again"


@given(
    st.integers(3, 14),
    st.integers(0, 13),
    st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=10),
    st.sets(st.integers(0, 13), max_size=4),
)
def test_links_that_are_silent_are_got_over(
    n: int, origin: int, chords: list[tuple[int, int]], silent: set[int]
) -> None:
    """As long as each broker keeps one of its two ring links, all take it, and just once."""
    net = SpreadNet(n, [(a % n, b % n) for a, b in chords])
    origin %= n
    struck: set[int] = set()
    for at in sorted(silent):
        pair = {at % n, (at + 1) % n}
        if struck.isdisjoint(pair):
            struck |= pair
            net.silence(*pair)
    ends = net.tell(origin)
    net.run(GIVE_UP_NS / NANOS_PER_SECOND + 9)
    assert ends == [NOBODY]
    assert [len(teller.took) for teller in net.tellers] == [int(k != origin) for k in range(n)]


def test_a_silent_broker_holds_nobody_up_and_is_told_as_soon_as_it_hears() -> None:
    net = SpreadNet(12)
    for other in range(12):
        net.silence(5, other) if other != 5 else None
    ends = net.tell(3)
    net.run(4.5)
    assert [k for k, teller in enumerate(net.tellers) if not teller.took] == [3, 5]
    assert ends == []
    net.silent.clear()
    net.run(8)
    assert ends == [NOBODY]
    assert all(len(teller.took) == (k != 3) for k, teller in enumerate(net.tellers))


def test_who_is_silent_to_the_end_is_named() -> None:
    net = SpreadNet(6)
    net.tellers[4].is_alive = False
    ends = net.tell(0)
    net.run(GIVE_UP_NS / NANOS_PER_SECOND + 9)
    assert ends == [{net.tellers[4].uid}]
    assert net.tellers[0].spread.counters["tells_given_up"] == 1
    assert net.tellers[0].spread.under_way == 0


def test_the_dead_are_struck() -> None:
    net = SpreadNet(6)
    dead = net.tellers[4]
    dead.is_alive = False
    ends = net.tell(0)
    net.run(0.9)
    assert ends == []
    net.perform(net.tellers[0], net.tellers[0].spread.strike([dead.uid], net.now))
    assert ends == [NOBODY]


def test_a_broker_whose_left_link_has_failed_is_reached_from_its_right() -> None:
    net = SpreadNet(4, [])
    net.unlink(2, 3)
    net.unlink(1, 3)
    ends = net.tell(1)
    net.run(0.9)
    assert not net.tellers[3].took, "it is in the arc of a broker that is not linked to it"
    net.run(1)
    assert ends == [NOBODY]
    assert net.tellers[3].took == [("news", net.tellers[0].uid)]


def test_who_cannot_take_it_yet_is_given_it_again() -> None:
    net = SpreadNet(5)
    net.tellers[2].takes = False
    ends = net.tell(0)
    net.run(0.5)
    assert ends == []
    net.tellers[2].takes = True
    net.run(2)
    assert ends == [NOBODY]
    assert [len(teller.took) for teller in net.tellers] == [0, 1, 2, 1, 1]


def test_who_is_no_member_is_told_but_not_waited_for() -> None:
    net = SpreadNet(5)
    net.know(net.tellers[:4])
    net.tellers[4].takes = False
    ends = net.tell(1)
    net.run(0.5)
    assert ends == [NOBODY]
    assert [len(teller.took) for teller in net.tellers] == [1, 0, 1, 1, 1]


def test_a_kind_that_is_not_known_is_passed_on_and_not_taken() -> None:
    net = SpreadNet(3)
    teller = net.tellers[1]
    sent = teller.spread.on_told(net.tellers[0].uid, told(kind=200), 0)
    assert [type(effect.message) for effect in sent if isinstance(effect, Send)] == [Told]
    assert [answer.taken for answer in answers(last(), told(kind=200))] == [()]


def test_what_is_malformed_is_not_taken_and_counted() -> None:
    teller = last()
    broken = msgspec.structs.replace(told(), content=b"\xc1")
    assert [answer.taken for answer in answers(teller, broken)] == [()]
    assert teller.spread.counters["tells_malformed"] == 1
    assert teller.took == []


def test_a_new_life_of_an_origin_begins_anew_and_the_old_one_counts_no_more() -> None:
    teller = last()
    for incarnation in (1, 2, 1):
        answers(teller, told(incarnation=incarnation))
    assert len(teller.took) == 2


def test_what_is_remembered_is_bounded() -> None:
    teller = last()
    for number in range(WINDOW + 5):
        answers(teller, told(number))
    for number in range(WINDOW + 5):
        answers(teller, told(number))
    assert len(teller.took) > WINDOW + 5
    for origin in range(200, 200 + MAX_ORIGINS + 5):
        answers(teller, told(origin=origin))
    assert len(teller.spread._heard) == MAX_ORIGINS


def test_what_is_passed_on_is_bounded() -> None:
    net = SpreadNet(3)
    teller = net.tellers[1]
    for number in range(MAX_RELAYED + 10):
        teller.spread.on_told(net.tellers[0].uid, told(number), 0)
    assert len(teller.spread._relayed) == MAX_RELAYED
    due = teller.spread.next_deadline()
    assert due == RELAY_WAIT_NS
    teller.spread.handle_timers(due)
    teller.spread.handle_timers(due + GIVE_UP_NS)
    assert len(teller.spread._relayed) == 0
    assert teller.spread.next_deadline() is None


def test_too_much_under_way_gives_the_oldest_up() -> None:
    net = SpreadNet(2)
    net.silence(0, 1)
    ends = [net.tell(0) for _ in range(MAX_TELLS + 1)]
    assert ends[0] == [{net.tellers[1].uid}]
    assert ends[1:] == [[]] * MAX_TELLS


def test_what_is_too_long_is_refused() -> None:
    net = SpreadNet(2)
    with pytest.raises(ValueError, match="at most 61440"):
        net.tell(0, "x" * MAX_CONTENT_BYTES)


@pytest.mark.parametrize("kind", [*TELLING_MESSAGES, *UNIT_MESSAGES])
def test_the_largest_messages_fit_into_a_control_frame(kind: type[Message]) -> None:
    assert len(LINK_CODEC.encode(largest(kind))) <= MAX_CONTROL_BYTES
