"""The trace that an event belongs to: a *traceparent* of W3C Trace Context, as an attribute.

For example ``00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01``: version, id of the trace,
id of the span that published the event, and flags. It is the attribute of that name, so an event
without one has no byte more, and brokers and clients of earlier versions carry it as well.

Publishers are held to the form; of what others have sent, what has not that form is no traceparent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec

from ges.errors import TraceparentError
from ges.wire.attributes import Attributes, read_attributes
from ges.wire.event_runs import EventRun

TRACEPARENT = "traceparent"  #: the attribute

_PACKED_NAME = TRACEPARENT.encode()
_FORM = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

#: As it may stand in a message; empty: none.
WireTraceparent = Annotated[str, msgspec.Meta(max_length=64)]


def check_traceparent(text: str) -> str:
    """Return ``text`` if it is a traceparent of version 00.

    Raises:
        TraceparentError: it is none.
    """
    if not (isinstance(text, str) and _FORM.fullmatch(text)):
        raise TraceparentError(
            f"{text!r} is not a traceparent: 00-TRACE-SPAN-FLAGS, with 32, 16 and 2 lower-case "
            "hexadecimal digits, TRACE and SPAN not all zeros"
        )
    return text


def traced(attributes: Attributes | None, traceparent: str | None) -> Attributes | None:
    """Return the attributes of an event with the trace that it belongs to, if it has one.

    Raises:
        TraceparentError: it is none, or the attributes name another one.
    """
    given = attributes.get(TRACEPARENT) if attributes else None
    if given is not None:
        check_traceparent(str(given))
    if traceparent is None:
        return attributes
    check_traceparent(traceparent)
    if given not in (None, traceparent):
        raise TraceparentError(
            f"traceparent is {traceparent}, and the attribute of that name is {given}; give one"
        )
    return {**(attributes or {}), TRACEPARENT: traceparent}


def traceparent_in(attributes: Attributes) -> str:
    """Return the traceparent among the attributes of an event; empty: it has none."""
    text = attributes.get(TRACEPARENT, "")
    return text if isinstance(text, str) and _FORM.fullmatch(text) else ""


def traceparents(run: EventRun) -> Iterator[tuple[int, str]]:
    """Yield the sequence of each event of a run that has a traceparent, and that."""
    for number, packed in enumerate(run.attributes(), run.head.sequence):
        if _PACKED_NAME in packed and (found := _read(packed)):
            yield number, found


def _read(packed: bytes) -> str:
    return traceparent_in(read_attributes(packed))
