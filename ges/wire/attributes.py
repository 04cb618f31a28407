"""The attributes of an event: names, and values of four types.

For example, ``{"unit": "C", "value": 21.5, "count": 3, "ok": True}``. On the wire they are a map of
msgpack. A value is text, an integer of 64 bits with its sign, a finite double or a boolean; so any
two values of one type can be compared, and each has one order. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import msgspec

from overlay.errors import CodecError, ConfigError

MAX_ATTRIBUTE_BYTES = 4096  #: of all, packed
MAX_ATTRIBUTES = 64
MAX_NAME_BYTES = 128

Attribute = str | int | float | bool
Attributes = Mapping[str, Attribute]

_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_decode = msgspec.msgpack.Decoder(dict[str, str | _Integer | float | bool]).decode
_encode = msgspec.msgpack.Encoder().encode


def pack_attributes(attributes: Attributes | None) -> bytes:
    """Encode attributes.

    Raises:
        ConfigError: a name is not text or too long, a value is of another type or no finite number
            of 64 bits, there are more than 64, or they take more than 4096 bytes.
    """
    if not attributes:
        return b""
    for name, value in attributes.items():
        if not isinstance(name, str):
            raise ConfigError(f"attribute {name!r}: names are text")
        if not isinstance(value, str | int | float):  # a boolean is an integer
            raise ConfigError(
                f"attribute {name!r}: {value!r} is {type(value).__name__}; give text, an integer, "
                "a float or a boolean"
            )
    if (problem := _problem(attributes)) is not None:
        raise ConfigError(problem)
    packed = _encode(dict(attributes))
    if len(packed) > MAX_ATTRIBUTE_BYTES:
        raise ConfigError(f"attributes take {len(packed)} bytes, {MAX_ATTRIBUTE_BYTES} are allowed")
    return packed


def read_attributes(packed: bytes) -> dict[str, Attribute]:
    """Decode attributes.

    Raises:
        CodecError: these are none.
    """
    try:
        found: dict[str, Attribute] = _decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CodecError(f"attributes: {error}") from None
    if (problem := _problem(found)) is not None:
        raise CodecError(problem)
    return found


def attribute_text(value: Attribute) -> str:
    """Return a value as text, for those who know of no types: ``5``, ``2.5``, ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problem(attributes: Attributes) -> str | None:
    if len(attributes) > MAX_ATTRIBUTES:
        return f"an event has {MAX_ATTRIBUTES} attributes at most, not {len(attributes)}"
    for name, value in attributes.items():
        if len(name) * 4 > MAX_NAME_BYTES and len(name.encode()) > MAX_NAME_BYTES:
            return f"attribute {name[:32]!r}...: a name has {MAX_NAME_BYTES} bytes at most"
        if isinstance(value, float) and not math.isfinite(value):
            return f"attribute {name!r}: {value} is no number that can be compared; leave it out"
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return f"attribute {name!r}: {value} does not fit into 64 bits; give it as text"
    return None
