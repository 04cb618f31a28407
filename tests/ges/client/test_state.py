"""What a client knows, without a broker, a clock or an event loop."""

from __future__ import annotations

import msgspec
import pytest

from ges.client.keepalive import Keepalive
from ges.client.outgoing import CONFIRMED_BYTES, CONFIRMED_SECONDS
from ges.client.resuming import SLACK_SECONDS
from ges.client.state import MAX_ALTERNATES, Away, ClientState, Ended, Move
from ges.errors import ConnectionLost, PublishRefused
from ges.wire.asked import Ask
from ges.wire.broker_messages import RevocationNotice
from ges.wire.client_messages import (
    Accepted,
    Alternates,
    Attached,
    Dropped,
    EventRefused,
    KeepAlive,
    Leaving,
    Mark,
    Missed,
    Resubscribe,
    Resubscription,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
)
from ges.wire.delivered import Event
from ges.wire.event_flags import AGAIN_FLAG
from ges.wire.events import FLAGS_AT
from overlay.address import parse_url
from overlay.ids import LinkClass
from overlay.machine import Message
from overlay.wire.frames import HEADER as FRAME_HEADER

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE
A, B, C = (f"chordal://127.0.0.1:{port}" for port in (1, 2, 3))
AFAR = "chordal://192.0.2.1:9470"


@pytest.fixture
def state() -> ClientState:
    """A client that is attached to the first of two brokers it was given."""
    return attached(urls=(A, B))


def attached(
    *, urls: tuple[str, ...] = (A,), secure: bool = False, has_token: bool = False
) -> ClientState:
    addresses = [parse_url(url) for url in urls]
    state = ClientState(addresses, b"\1" * 16, 7, has_token=has_token)
    assert state.attach(urls[0], Attached("a" * 32, urls[0], secure), 1.0) is None
    return state


def tell(state: ClientState, *messages: Message, now: float = 2.0) -> None:
    """Hand in messages on account of which nothing is to be done."""
    for message in messages:
        assert state.take(message, now) is None


def publish(state: ClientState, link_class: LinkClass, count: int) -> list[bytes]:
    stream = state.outgoing[link_class]
    if link_class is EXPRESS:
        return [bytes(stream.pack_express(b"a", b"", b"", 1, 0)) for _ in range(count)]
    items = []
    for _ in range(count):
        items.append(stream.pack(b"a", b"", b"", 1))
        stream.keep(items[-1])
    return items


def again(*items: bytes) -> list[bytes]:
    """Return events as they are sent a second time."""
    marked = []
    for item in items:
        copy = bytearray(item)
        copy[FRAME_HEADER.size + FLAGS_AT] |= AGAIN_FLAG
        marked.append(bytes(copy))
    return marked


# Brokers


def test_the_broker_just_lost_is_tried_last(state: ClientState) -> None:
    tell(state, Alternates((C, A)))
    assert state.alternates == (C, A)
    assert [address.url for address in state.choices()] == [A, B, C]
    state.lose()
    assert [address.url for address in state.choices()] == [B, C, A]


def test_it_says_how_long_there_was_no_broker(state: ClientState) -> None:
    state.keepalive.heard(5.0)
    state.lose()
    assert (state.url, state.lost_url) == (A, A)
    assert state.attach(B, Attached("b" * 32, B, secure=False), 7.5) == 2.5
    assert (state.url, state.lost_url, state.broker_uid) == (B, A, "b" * 32)


def test_the_patience_with_one_broker_is_not_that_with_the_next(state: ClientState) -> None:
    state.keepalive.asked(1, 2.0)
    tell(state, KeepAlive(1, answer=True), now=4.0)
    assert state.keepalive.limit > Keepalive(0.0).limit
    state.lose()
    state.attach(B, Attached("b" * 32, B, secure=False), 7.5)
    assert state.keepalive.limit == Keepalive(0.0).limit
    assert state.keepalive.heard_at == 7.5


@pytest.mark.parametrize(("has_token", "known"), [(True, [A, B]), (False, [A, AFAR, B])])
def test_a_token_goes_to_no_plain_broker_on_another_host(has_token: bool, known: list[str]) -> None:
    state = attached(has_token=has_token)
    tell(state, Alternates((AFAR, B)))
    assert [address.url for address in state.choices()] == known


def test_those_learnt_are_called_as_those_given_are() -> None:
    state = attached(urls=("chordals://127.0.0.1:1",), secure=True, has_token=True)
    tell(state, Alternates((AFAR,)))
    assert state.choices()[1].url == AFAR.replace("chordal:", "chordals:")


def test_what_is_no_url_is_kept_apart_until_other_alternates_come(state: ClientState) -> None:
    tell(state, Alternates(("nonsense", B)))
    assert state.alternates == (B,)
    assert state.unusable == {"nonsense": f"not a broker's URL, told by {A}"}
    many = tuple(f"chordal://127.0.0.1:{port}" for port in range(1, MAX_ALTERNATES + 9))
    tell(state, Alternates(many))
    assert state.alternates == many[:MAX_ALTERNATES]
    assert state.unusable == {}


# Subscriptions


def test_a_request_is_made_of_every_broker_until_it_is_withdrawn(state: ClientState) -> None:
    request = Subscribe(1, Ask("a/#"))
    state.request(request)
    assert not state.is_decided(1)
    tell(state, Subscribed(1))
    assert state.is_decided(1)
    assert state.settle(1) is None
    state.lose()
    assert state.requests == {1: request}
    state.withdraw(1)
    assert state.requests == {}


def test_the_first_reason_is_told(state: ClientState) -> None:
    state.request(Subscribe(1, Ask("a")))
    tell(state, Subscribed(1), SubscriptionRefused(1, "no"), SubscriptionRefused(1, "never"))
    assert state.settle(1) == "no"


def test_a_broker_may_end_what_it_or_another_one_served(state: ClientState) -> None:
    state.request(Subscribe(1, Ask("a")))
    tell(state, Subscribed(1))
    state.settle(1)
    assert state.take(SubscriptionRefused(1, "no more"), 2.0) == Ended(1, "no more")
    assert state.requests == {}
    tell(state, SubscriptionRefused(1, "no more"))


def test_an_answer_to_what_is_withdrawn_is_none(state: ClientState) -> None:
    state.request(Subscribe(1, Ask("a")))
    state.withdraw(1)
    tell(state, Subscribed(1), SubscriptionRefused(1, "no"), Subscribed(2))
    assert not state.is_decided(1)
    assert not state.is_decided(2)


OTHER = Attached("b" * 32, B, secure=False, capabilities=("something new",))


def test_the_next_broker_is_asked_for_what_was_missed(state: ClientState) -> None:
    for number in (1, 2, 3):
        state.request(Subscribe(number, Ask("a")))
    tell(state, Subscribed(1), now=2.0)
    tell(state, Subscribed(2), now=3.0)
    state.settle(1)
    event = Event("a", b"", {}, NORMAL, "ab" * 16, 9, 1, 0, incarnation=5)
    state.watermarks.fresh([event])
    state.watermarks.fresh([msgspec.structs.replace(event, link_class=EXPRESS)])
    state.lose()
    state.attach(B, OTHER, 4.0)
    slack = round(SLACK_SECONDS * 1000)
    assert list(state.all_requests(5.0)) == [
        Resubscribe(
            (Mark(bytes.fromhex("ab" * 16), 5, False, 9),),
            (
                Resubscription(1, Ask("a"), 3000 + slack),
                Resubscription(2, Ask("a"), 2000 + slack),
            ),
            more=False,
        ),
        Subscribe(3, Ask("a")),
    ], "the third was served by nobody yet: it is to get nothing old"
    tell(state, Subscribed(1), now=6.0)
    state.withdraw(2)
    (again, _) = state.all_requests(7.0)
    assert isinstance(again, Resubscribe)
    (only,) = again.subscriptions
    assert (only.number, only.age_ms) == (1, 5000 + slack), "since it was served first"


# The client's own events


def test_what_is_not_confirmed_goes_to_the_next_broker(state: ClientState) -> None:
    items = publish(state, NORMAL, 4)
    tell(state, Accepted(NORMAL, 2))
    assert not state.is_confirmed()
    state.lose()
    state.attach(B, Attached("b" * 32, B, secure=False), 3.0)
    assert list(state.unconfirmed(2)) == again(*items), "what was confirmed just now is kept, too"
    tell(state, Accepted(NORMAL, 4), now=2.5 + CONFIRMED_SECONDS)
    assert state.is_confirmed()
    assert list(state.unconfirmed(2)) == again(*items[2:])


def test_what_was_confirmed_is_kept_for_a_while_and_up_to_a_size(state: ClientState) -> None:
    items = publish(state, NORMAL, 1)
    tell(state, Accepted(NORMAL, 1), now=2.0)
    publish(state, NORMAL, 1)
    assert len(list(state.unconfirmed(2))) == 2, "however long the broker says nothing"
    tell(state, Accepted(NORMAL, 2), now=2.5 + CONFIRMED_SECONDS)
    assert len(list(state.unconfirmed(2))) == 1
    each = CONFIRMED_BYTES // len(items[0])
    for _ in range(3):
        publish(state, NORMAL, each)
        tell(state, Accepted(NORMAL, state.outgoing[NORMAL].sequence), now=9.0)
    kept = list(state.unconfirmed(2))
    assert len(kept) == each
    assert state.outgoing[NORMAL].kept_bytes == 0, "it keeps no publisher waiting"


def test_a_refusal_of_what_was_confirmed_is_none(state: ClientState) -> None:
    """Another broker is asked to take it only in case that it was lost."""
    publish(state, NORMAL, 2)
    tell(state, Accepted(NORMAL, 2))
    state.lose()
    state.attach(B, Attached("b" * 32, B, secure=False), 3.0)
    tell(state, EventRefused(NORMAL, 1, "not allowed"), Accepted(NORMAL, 1), Accepted(NORMAL, 2))
    assert state.is_confirmed()


def test_nothing_secure_goes_again_where_the_hop_is_not() -> None:
    state = attached(secure=True)
    items = publish(state, SECURE, 2)
    assert list(state.unconfirmed(2)) == again(*items)
    state.lose()
    state.attach(B, Attached("b" * 32, B, secure=False), 3.0)
    assert list(state.unconfirmed(2)) == []
    assert not state.is_confirmed(), "it is still to be sent"


def test_a_refusal_counts_as_an_answer_once_all_before_it_is_answered(state: ClientState) -> None:
    items = publish(state, NORMAL, 3)
    tell(state, EventRefused(NORMAL, 2, "not allowed"))
    assert list(state.unconfirmed(2)) == again(items[0], items[2]), "not what is refused"
    tell(state, Accepted(NORMAL, 1))
    assert list(state.unconfirmed(2)) == again(items[0], items[2]), "nor when it is decided"
    with pytest.raises(PublishRefused, match="not allowed"):
        state.is_confirmed()
    assert not state.is_confirmed(), "a refusal is told once"


def test_several_refusals_are_counted(state: ClientState) -> None:
    publish(state, NORMAL, 3)
    tell(state, *(EventRefused(NORMAL, number, f"no {number}") for number in (1, 2, 3)))
    with pytest.raises(PublishRefused, match=r"^no 1 \(and 2 more refusals\)$"):
        state.raise_refusal()
    assert state.is_confirmed()


def test_express_events_are_lost_with_their_broker(state: ClientState) -> None:
    publish(state, EXPRESS, 2)
    tell(state, Accepted(EXPRESS, 1))
    state.lose()
    assert list(state.unconfirmed(2)) == []
    with pytest.raises(ConnectionLost, match="before it confirmed all express events"):
        state.is_confirmed()
    assert state.is_confirmed(), "it is told once"
    tell(state, Accepted(EXPRESS, 1))
    assert state.is_confirmed(), "a late answer to earlier ones changes nothing"


# Other messages


def test_a_question_is_to_be_answered(state: ClientState) -> None:
    assert state.take(KeepAlive(3, answer=False), 2.0) == KeepAlive(3, answer=True)


def test_a_list_of_revoked_identities_is_for_who_holds_the_credentials(state: ClientState) -> None:
    notice = RevocationNotice(b"crl", b"voucher")
    assert state.take(notice, 2.0) == notice


def test_what_the_broker_dropped(state: ClientState) -> None:
    tell(state, Dropped(3, 4))
    assert state.dropped == Dropped(3, 4)


def test_a_broker_whose_place_was_in_doubt_says_for_how_long(state: ClientState) -> None:
    assert state.take(Missed(3600), 2.0) == Away(3.6)


def test_what_a_broker_says_of_a_refusal_is_escaped(state: ClientState) -> None:
    publish(state, NORMAL, 1)
    tell(state, EventRefused(NORMAL, 1, "\x1b[2J\nno"))
    with pytest.raises(PublishRefused, match=r"^\\x1b\[2J\\nno$"):
        state.raise_refusal()
    state.request(Subscribe(1, Ask("a")))
    tell(state, SubscriptionRefused(1, "\x1b[2J"))
    assert state.settle(1) == r"\x1b[2J"


def test_a_client_whose_broker_leaves_goes_once_its_express_events_are_confirmed() -> None:
    """All others it publishes again at the next broker."""
    state = attached()
    publish(state, NORMAL, 2)
    publish(state, EXPRESS, 2)
    assert state.take(Leaving(), 2.0) == Move()
    assert not state.may_go
    tell(state, Accepted(EXPRESS, 1))
    assert not state.may_go
    tell(state, EventRefused(EXPRESS, 2, "no"))
    assert state.may_go, "what is refused is decided as well"
