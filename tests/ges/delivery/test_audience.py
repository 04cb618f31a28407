"""Who wants a topic: right after all changes, at the cost of the changes that concern it."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ges.delivery import audience as module
from ges.delivery import holdings
from ges.delivery.audience import Audience
from ges.delivery.delivery import Deliveries
from ges.delivery.holdings import Targets
from ges.delivery.interests import Interests
from ges.matching import changes as changes_module
from ges.matching.asks import ask_for, served
from ges.wire.asked import Ask
from ges.wire.delivered import MAX_MATCHES
from ges.wire.matter import Matter
from overlay.errors import ConfigError
from overlay.ids import LinkClass, Nanos
from overlay.shares import NOWHERE
from overlay.wire.frames import Bytes
from tests.helpers.clusters import realms_alone, sharing_alone
from tests.helpers.examples import examples
from tests.helpers.linear_filters import does_match

NORMAL, SECURE, EXPRESS = LinkClass.NORMAL, LinkClass.SECURE, LinkClass.EXPRESS


class Nowhere:
    """A connection that nothing is sent over."""

    queued_bytes = one_way_us = 0

    def send(self, item: Bytes, events: int = 0) -> None:
        raise AssertionError

    def send_express(self, item: bytearray, stamp_at: int) -> None:
        raise AssertionError


class Client:
    """A client, as far as its subscriptions go."""

    def __init__(self, *, secure: bool = False) -> None:
        self.asks: dict[int, Ask] = {}
        self.last: dict[LinkClass, int] = {}
        self.secure = secure
        self.retains = True
        self.source = NOWHERE
        self.waiting_bytes = 0
        self.connection = Nowhere()


class Watched(Audience):
    """An audience that counts how often it matched anew."""

    def __init__(self) -> None:
        self.matched: Counter[str] = Counter()
        super().__init__()

    def _match(self, link_class: LinkClass, topic: str) -> Targets:
        self.matched[topic] += 1
        return super()._match(link_class, topic)


def wanted(targets: Targets) -> dict[Client, tuple[int, ...]]:
    """Who gets an event, and by which subscriptions."""
    found = {}
    for row in targets:
        if row.recipient.client is not None:
            (count,) = struct.unpack_from("!H", row.matches)
            assert isinstance(row.recipient.client, Client)
            found[row.recipient.client] = struct.unpack_from(f"!{count}I", row.matches, 2)
    return found


def expected(
    clients: list[Client], link_class: LinkClass, topic: str, most: int
) -> dict[Client, object]:
    """The same by the rules, from the filters that clients have."""
    found: dict[Client, object] = {}
    for client in clients:
        numbers = sorted(
            number
            for number, ask in client.asks.items()
            if does_match(ask.filter, topic) and ask.takes(link_class)
        )
        if numbers:
            found[client] = tuple(numbers[:most])
    return found


filters = st.sampled_from(["a", "a/b", "a/+", "a/#", "#", "+/b", "b", "b/+"])
topics = ["a", "a/b", "b", "b/c", "c"]
classes = st.sampled_from(list(LinkClass))
steps = st.one_of(
    st.tuples(
        st.just("add"),
        st.integers(0, 3),
        st.integers(1, 6),
        filters,
        st.none() | classes,
    ),
    st.tuples(st.just("remove"), st.integers(0, 3), st.integers(1, 6)),
    st.tuples(st.just("forget"), st.integers(0, 3)),
    st.tuples(st.just("ask")),
    st.tuples(st.just("ask")),
)


@pytest.mark.parametrize(("remembered", "most"), [(512, MAX_MATCHES), (4, MAX_MATCHES), (512, 2)])
@settings(max_examples=examples(250))
@given(plan=st.lists(steps, max_size=60))
def test_after_any_changes_those_get_an_event_who_want_it(
    remembered: int, most: int, plan: list[tuple[object, ...]]
) -> None:
    """Also where changes are forgotten soon, or where few numbers stand before an event."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes_module, "MAX_CHANGES", remembered)
        patch.setattr(holdings, "MAX_MATCHES", most)
        deliveries = Deliveries(
            Counter(),
            lambda: Nanos(0),
            Interests(lambda given: None),
            sharing_alone(),
            realms_alone(),
        )
        clients = [Client(secure=number % 2 == 0) for number in range(4)]
        for what, *arguments in plan:
            if what == "ask":
                for link_class, topic in product(LinkClass, topics):
                    found = wanted(deliveries.audience.of(Matter(link_class, topic.encode())))
                    assert found == expected(clients, link_class, topic, most)
                continue
            at, *rest = arguments
            assert isinstance(at, int)
            change(deliveries, clients[at], *rest)
            assert deliveries.subscriptions == sum(len(client.asks) for client in clients)


def change(deliveries: Deliveries, client: Client, *rest: Any) -> None:  # noqa: ANN401
    """Let a client go, or one of its subscriptions, or ask for something."""
    if not rest:
        deliveries.forget(client)
    elif len(rest) == 1:
        deliveries.unsubscribe(client, rest[0])
    else:
        number, text, only = rest
        with contextlib.suppress(ConfigError):  # for secure events alone, over a plain hop
            ask = served(ask_for(text, only), secure=client.secure)
            deliveries.subscribe(client, number, ask)


def test_changes_of_others_match_nothing_anew() -> None:
    audience = Watched()
    one, other = Client(), Client()
    audience.add(one, 1, Ask("a/#"))
    assert wanted(audience.of(Matter(NORMAL, b"a/b"))) == {one: (1,)}
    for number in range(5000):
        audience.add(other, number, Ask("b/#" if number % 2 else f"b/{number}"))
        audience.add(other, 10_000 + number, Ask("a/+"))
        assert wanted(audience.of(Matter(NORMAL, b"a/b"))) == {one: (1,), other: (10_000 + number,)}
        audience.remove(other, 10_000 + number, Ask("a/+"))
    assert wanted(audience.of(Matter(NORMAL, b"a/b"))) == {one: (1,)}
    assert audience.matched == {"a/b": 1}


def test_clients_that_have_gone_do_not_pile_up() -> None:
    audience = Audience()
    for _ in range(100):
        client = Client()
        audience.add(client, 1, Ask("#"))
        assert wanted(audience.of(Matter(NORMAL, b"a"))) == {client: (1,)}
        audience.forget(client)
        assert wanted(audience.of(Matter(NORMAL, b"a"))) == {}
    assert len(audience.of(Matter(NORMAL, b"a"))) == 1
    assert audience.size == 0


def test_whether_an_event_would_go_to_anybody() -> None:
    deliveries = Deliveries(
        Counter(), lambda: Nanos(0), Interests(lambda given: None), sharing_alone(), realms_alone()
    )
    client, other = Client(secure=True), Client()
    for each in (client, other):
        deliveries.subscribe(each, 1, served(Ask("a"), secure=each.secure))
    assert deliveries.serves(Matter(SECURE, b"a"))
    deliveries.audience.hold(client)
    assert not deliveries.serves(Matter(SECURE, b"a"))
    deliveries.audience.release(client)
    assert deliveries.serves(Matter(SECURE, b"a"))
    deliveries.forget(client)
    assert not deliveries.serves(Matter(SECURE, b"a"))
    assert deliveries.serves(Matter(NORMAL, b"a"))


def test_equal_filters_of_one_client_count_once() -> None:
    audience = Audience()
    client = Client()
    for number in range(4000):
        audience.add(client, number, Ask("a"))
    assert len(audience._engine.matches("a")) == 1
    (row,) = audience.of(Matter(NORMAL, b"a"))
    assert struct.unpack_from("!H", row.matches) == (MAX_MATCHES,)
    for number in range(3999):
        audience.remove(client, number, Ask("a"))
    assert wanted(audience.of(Matter(NORMAL, b"a"))) == {client: (3999,)}


def test_topics_with_the_same_clients_share_one_entry() -> None:
    """400 clients on ``#`` and 16,000 topics took 656 MiB when each topic had its own."""
    audience = Audience()
    for _ in range(400):
        audience.add(Client(), 1, Ask("#"))
    topics = [b"t/%d" % number for number in range(2000)]
    targets = [audience.of(Matter(NORMAL, topic)) for topic in topics]
    assert len(targets[0]) == 400
    assert all(each is targets[0] for each in targets)
    assert audience.cached_bytes < 2000 * 500
    audience.add(Client(), 1, Ask("+/#"))
    targets = [audience.of(Matter(NORMAL, topic)) for topic in topics]
    assert len(targets[0]) == 401
    assert all(each is targets[0] for each in targets)
    assert audience.cached_bytes < 2000 * 500


def test_what_is_remembered_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients with many filters each, other ones for each topic: nothing can be shared."""
    limit = 2 * 1024 * 1024
    monkeypatch.setattr(module, "MAX_CACHE_BYTES", limit)
    audience = Audience()
    for _ in range(10):
        client = Client()
        for bit in range(10):
            for repeat in range(50):
                levels = ["+"] * 10
                levels[bit] = "1"
                audience.add(client, 50 * bit + repeat, Ask("/".join(levels)))
    tracemalloc.start()
    for number in range(1, 1024):
        audience.of(Matter(NORMAL, "/".join(f"{number:010b}").encode()))
        assert audience.cached_bytes <= limit
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert limit / 4 < used <= limit * 1.1
    audience.drop_cache()
    assert audience.cached_bytes == 0
    assert len(audience.of(Matter(NORMAL, b"1/0/0/0/0/0/0/0/0/0"))) == 10


def test_rows_that_were_replaced_are_counted_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics used seldom have rows of different times, of a client that changes its filters."""
    limit = 512 * 1024
    monkeypatch.setattr(module, "MAX_OLD_BYTES", limit)
    audience = Audience()
    client = Client()
    for number in range(1000):
        audience.add(client, number, Ask("#"))
    tracemalloc.start()
    for number in range(1000):
        audience.of(Matter(NORMAL, b"%d" % number))
        audience.remove(client, number, Ask("#"))
        audience.add(client, number, Ask("#"))
        used, _ = tracemalloc.get_traced_memory()
        assert used <= audience.cached_bytes + limit / 2
        assert audience.cached_bytes <= 4 * limit
    tracemalloc.stop()


def test_numbers_that_were_too_many_take_the_place_of_those_that_end() -> None:
    audience = Audience()
    client = Client()
    audience.add(client, 5000, Ask("+"))
    for number in range(MAX_MATCHES + 2):
        audience.add(client, number, Ask("a"))
    assert wanted(audience.of(Matter(NORMAL, b"a"))) == {client: tuple(range(MAX_MATCHES))}
    audience.remove(client, 0, Ask("a"))
    assert wanted(audience.of(Matter(NORMAL, b"a"))) == {client: tuple(range(1, MAX_MATCHES + 1))}
