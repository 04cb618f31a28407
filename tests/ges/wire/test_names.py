"""Names of clients, and realms, as they stand in events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.wire.delivered import read_events
from ges.wire.event_runs import EventRun
from ges.wire.events import MAX_PAYLOAD_BYTES, Options, pack_event, read_head
from ges.wire.groups import Serving, read_serving
from ges.wire.names import MAX_NAMES, name_filter, name_in, pack_names, read_names
from ges.wire.realms import REALMS, Realm, name_of, realm_named, within
from overlay.errors import CodecError, ConfigError
from overlay.wire.frames import EVENT, frame

NAMES = st.lists(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}", fullmatch=True),
    min_size=1,
    max_size=MAX_NAMES,
    unique=True,
)
WHO = bytes(16), 1, 1, 0


@given(NAMES, st.binary(max_size=200), st.integers(0, 9))
def test_names_are_read_as_they_were_packed_and_clients_see_none(
    names: list[str], payload: bytes, priority: int
) -> None:
    body = pack_event(
        False, *WHO, b"topic", b"", payload, priority=priority, to=tuple(names), ttl_ms=5
    )
    run = EventRun.of(read_head(body), body)
    assert (run.head.is_named, run.head.priority, run.head.realm) == (True, priority, Realm.ALL)
    assert run.names() == tuple(names)
    fewer = run.named(names[:1])
    assert fewer.names() == tuple(names[:1])
    plain = fewer.named(())
    assert not plain.head.is_named
    assert read_head(next(plain.bodies())) == plain.head
    (event,) = read_events(bytes(plain.frames))
    assert (event.payload, event.priority) == (payload, priority)


@given(st.binary(max_size=100))
def test_bytes_that_are_no_names_are_refused(data: bytes) -> None:
    try:
        names, end = read_names(data, 0, len(data))
    except CodecError:
        return
    assert pack_names(names) == data[:end]


def test_the_largest_payload_may_have_names_before_it() -> None:
    names = tuple(f"{number:064}" for number in range(MAX_NAMES))
    body = pack_event(False, *WHO, b"t", b"", bytes(MAX_PAYLOAD_BYTES), to=names)
    assert read_head(body).is_named
    with pytest.raises(CodecError):
        read_head(pack_event(False, *WHO, b"t", b"", bytes(MAX_PAYLOAD_BYTES + 1)))


def test_a_subscription_takes_one_name() -> None:
    assert name_in(name_filter("kitchen")) == "kitchen"
    for text in ("kitchen", "$name/a/b", "$name/+", "$name/", "$name", "$names/a"):
        assert name_in(text) is None


@pytest.mark.parametrize("realm", list(Realm))
def test_a_realm_is_read_as_it_was_packed_beside_the_priority(realm: Realm) -> None:
    body = pack_event(True, *WHO, b"t", b"", b"x", priority=9, realm=realm)
    head = read_head(body)
    assert (head.realm, head.priority, head.is_named) == (realm, 9, False)
    (event,) = read_events(frame(EVENT, body))
    assert event.priority == 9
    assert realm_named(name_of(realm)) is realm


@pytest.mark.parametrize(("at", "value"), [(81, 10), (82, 0), (82, 5), (7, 1), (0, 1), (1, 2)])
def test_what_means_nothing_is_refused(at: int, value: int) -> None:
    """A priority, a realm, what is to be 0, and flags that no version has."""
    body = bytearray(pack_event(False, *WHO, b"t", b"", b"x"))
    body[at] = value
    with pytest.raises(CodecError):
        read_head(bytes(body))


def test_destinations_beyond_a_realm_are_cut_off() -> None:
    mask = 1 | 1 << 64 | 1 << 128 | 1 << 192
    found = [within(mask, realm).bit_count() for realm in REALMS.values()]
    assert found == [1, 2, 3, 4]
    with pytest.raises(ConfigError, match="realm 'planet': write one of cluster"):
        realm_named("planet")
    assert Options() == Options(realm=Realm.ALL, to=())


@given(
    st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 255), max_size=8),
    st.integers(0, 2**256 - 1),
)
def test_who_serves_groups_is_read_as_it_was_packed(slots: dict[int, int], tried: int) -> None:
    serving = Serving(slots, tried)
    data = b"before" + serving.pack()
    assert read_serving(data, 6, len(data)) == (serving, 6)


@given(st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), max_size=8))
def test_brokers_may_be_named_by_their_places(places: dict[int, int]) -> None:
    serving = Serving(places, has_places=True)
    data = serving.pack()
    assert read_serving(data, 0, len(data)) == (serving, 0)
