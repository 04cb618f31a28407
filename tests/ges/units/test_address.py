"""Addresses as the papers print them, and sets of slots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.units.address import (
    ALL_SLOTS,
    Address,
    in_cluster,
    mask_of,
    parse_address,
    slots_of,
    unpack_address,
)
from overlay.errors import ConfigError

NUMBER = st.integers(0, 63)
ADDRESS = st.builds(Address, st.tuples(NUMBER, NUMBER, NUMBER, NUMBER))


@given(ADDRESS, ADDRESS)
def test_an_address_is_the_same_printed_and_packed_and_orders_as_it_reads(
    one: Address, other: Address
) -> None:
    assert parse_address(str(one)) == one
    assert unpack_address(one.packed) == one
    assert one.packed < 64**4  # 16,777,216 brokers
    assert (one < other) is (one.numbers < other.numbers) is (one.packed < other.packed)


def test_an_address_reads_from_the_top() -> None:
    address = parse_address("4.3.2.1")
    assert [address.at(level) for level in range(4)] == [1, 2, 3, 4]
    assert address.slot == 1
    assert str(in_cluster(63)) == "0.0.0.63"


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        ("1.2.3.4", "1.2.3.4", 0),
        ("1.2.3.4", "1.2.3.5", 1),
        ("1.2.3.4", "1.2.4.4", 2),
        ("1.2.3.4", "1.3.3.4", 3),
        ("1.2.3.4", "0.2.3.4", 4),
    ],
)
def test_two_addresses_are_in_one_unit_from_some_level_on(one: str, other: str, level: int) -> None:
    assert parse_address(one).common_level(parse_address(other)) == level


@pytest.mark.parametrize(
    "text", ["", "1.2.3", "1.2.3.4.5", "0.0.0.64", "0.0.0.-1", "0.0.0.x", "0.0.0.²", "0.0.0. 1"]
)
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="is no address"):
        parse_address(text)


@pytest.mark.parametrize("packed", [-1, 64**4])
def test_what_is_no_packed_address_is_named(packed: int) -> None:
    with pytest.raises(ConfigError, match="packed"):
        unpack_address(packed)


@given(st.sets(NUMBER))
def test_a_mask_is_a_set_of_slots(slots: set[int]) -> None:
    mask = mask_of(slots)
    assert list(slots_of(mask)) == sorted(slots)
    assert mask.bit_count() == len(slots)
    assert mask & ~ALL_SLOTS == 0
