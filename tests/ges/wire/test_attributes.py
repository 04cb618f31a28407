"""Attributes of four types: what is read is what was given, and nothing else is let in."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.wire.attributes import (
    MAX_ATTRIBUTES,
    Attribute,
    attribute_text,
    pack_attributes,
    read_attributes,
)
from overlay.errors import CodecError, ConfigError

VALUES = st.one_of(
    st.text(max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
WRONG = {
    "nothing": None,
    "a list": [1],
    "bytes": b"x",
    "no number": math.nan,
    "without end": -math.inf,
    "too large": 2**63,
    "too small": -(2**63) - 1,
}


@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=10))
def test_what_is_read_is_what_was_given_with_its_types(given: dict[str, Attribute]) -> None:
    found = read_attributes(pack_attributes(given)) if given else {}
    assert found == given
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in given.items()
    }


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
def test_a_value_of_no_type_is_named(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match="attribute 'odd'"):
        pack_attributes({"odd": value})


@pytest.mark.parametrize(
    "packed",
    [
        *(msgspec.msgpack.encode({"odd": WRONG[name]}) for name in WRONG if name != "too small"),
        msgspec.msgpack.encode({str(number): 0 for number in range(MAX_ATTRIBUTES + 1)}),
        msgspec.msgpack.encode({"é" * 65: 0}),
        msgspec.msgpack.encode({7: "x"}),
        b"\xc1",
        b"",
    ],
)
def test_what_a_stranger_writes_is_read_or_refused(packed: bytes) -> None:
    with pytest.raises(CodecError):
        read_attributes(packed)


def test_names_and_number_have_limits() -> None:
    assert pack_attributes({"n" * 128: 0})
    with pytest.raises(ConfigError, match="128 bytes"):
        pack_attributes({"n" * 129: 0})
    with pytest.raises(ConfigError, match="64 attributes"):
        pack_attributes(dict.fromkeys(map(str, range(65)), 0))


@pytest.mark.parametrize(
    ("value", "text"), [(5, "5"), (2.5, "2.5"), (True, "true"), (False, "false"), ("C", "C")]
)
def test_who_knows_no_types_gets_text(value: Attribute, text: str) -> None:
    assert attribute_text(value) == text
