"""What operators are told fits into one control message, whoever is attached."""

from __future__ import annotations

from ges.access.rules import Principal
from ges.wire.client_messages import CLIENT_CODEC
from ges.wire.operator_messages import CLIENTS_PER_MESSAGE, ClientList, ClientStatus
from overlay.wire.codec import FrameReader
from overlay.wire.frames import CONTROL, MAX_CONTROL_BYTES, MAX_FRAME_BYTES

MOST = 2**63 - 1


def test_a_page_of_clients_with_the_longest_names_is_no_longer_than_it_may_be() -> None:
    client = ClientStatus(
        number=MOST,
        is_asker=True,
        uid="f" * 32,
        name=Principal(token="x" * 64).label,
        host="2001:0db8:1111:2222:3333:4444:5555:6666%interface",
        secure=True,
        age_s=1e9 / 3,
        subscriptions=MOST,
        queued_bytes=MOST,
        published=MOST,
        delivered=MOST,
        sent_bytes=MOST,
        dropped=MOST,
        express_dropped=MOST,
    )
    page = ClientList((client,) * CLIENTS_PER_MESSAGE, True)
    encoded = CLIENT_CODEC.encode(page)
    assert len(encoded) < MAX_CONTROL_BYTES
    reader = FrameReader(MAX_FRAME_BYTES)
    reader.feed(encoded)
    ((kind, body),) = reader.frames()
    assert (kind, CLIENT_CODEC.decode(body)) == (CONTROL, page)
