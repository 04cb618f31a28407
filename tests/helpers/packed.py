"""Event frames with chosen fields, and strategies for them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ges.wire.events import pack_event
from overlay.ids import MAX_COUNT, MAX_SEQUENCE

PUBLISHER = bytes(range(16))

_counts = st.integers(0, MAX_COUNT)
_texts = st.text(max_size=40)

#: Fields of an event, its topic and attributes not yet packed.
event_fields = st.fixed_dictionaries(
    {
        "secure": st.booleans(),
        "publisher": st.binary(min_size=16, max_size=16),
        "incarnation": _counts,
        "sequence": st.integers(1, MAX_SEQUENCE),
        "published_ns": st.integers(0, 2**64 - 1),
        "topic": st.text(min_size=1, max_size=100),
        "attributes": st.dictionaries(_texts, _texts, max_size=5),
        "payload": st.binary(max_size=300),
    }
)


def packed(**changes: Any) -> bytes:  # noqa: ANN401 - fields of an event
    """Return the body of an event frame in which only these fields are special."""
    fields: dict[str, Any] = {
        "secure": False,
        "publisher": PUBLISHER,
        "incarnation": 7,
        "sequence": 9,
        "published_ns": 11,
        "topic": b"a/b",
        "attributes": b"",
        "payload": b"payload",
    }
    return pack_event(**fields | changes)
