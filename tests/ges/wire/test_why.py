"""The answer to ``chordal why`` fits into one frame, whatever others have told."""

from __future__ import annotations

from ges.wire.client_messages import CLIENT_CODEC
from ges.wire.topics import MAX_TOPIC_BYTES
from ges.wire.unit_messages import MAX_SLOTS
from ges.wire.why import (
    MAX_ASKS_TOLD,
    MAX_CLIENTS_TOLD,
    MAX_FILTER_BYTES_TOLD,
    MAX_FILTERS_TOLD,
    MAX_HOPS_TOLD,
    Why,
    WhyAsk,
    WhyClient,
    WhyFilter,
    WhyHop,
    WhyMember,
)
from overlay.ids import LinkClass
from overlay.wire.frames import MAX_CONTROL_BYTES

EXPRESS, ALL = LinkClass.EXPRESS, tuple(LinkClass)
URL = "chordal://" + "h" * 253 + ":65535"
PROBLEM = "no path leads there: the event would wait here for one, for some seconds"


def test_the_longest_answer_fits_into_a_control_frame() -> None:
    no_text = (WhyAsk("", ALL),) * MAX_ASKS_TOLD
    long = (WhyAsk("f" * MAX_FILTER_BYTES_TOLD, ALL), *no_text[1:])
    path = (WhyHop(MAX_SLOTS - 1, EXPRESS),) * MAX_HOPS_TOLD
    members = tuple(
        WhyMember(slot, "f" * 32, URL, True, True, no_text if slot else long, True, path, PROBLEM)
        for slot in range(MAX_SLOTS)
    )
    filters = (WhyFilter("", EXPRESS),) * MAX_FILTERS_TOLD
    clients = (WhyClient("f" * 32, filters, True, PROBLEM),) * MAX_CLIENTS_TOLD
    told = ("f" * 32, URL, "t" * MAX_TOPIC_BYTES, EXPRESS, False, "r" * 500, "w" * 500, 63)
    answer = Why(*told, members, clients, 2**63 - 1)
    frame = CLIENT_CODEC.encode(answer)
    assert 32 * 1024 < len(frame) <= MAX_CONTROL_BYTES
