"""The multigraph of an overlay, put together from what its brokers say."""

from __future__ import annotations

import msgspec

from ges.operations.overlay_graph import multigraph, resilience_of
from ges.wire.status import LinkStatus, Status
from overlay.ids import LinkClass, nanos
from overlay.multigraph.graph import as_networkx
from overlay.multigraph.weights import Weights
from tests.ges.operations.test_resilience import status

NORMAL, EXPRESS, SECURE = LinkClass.NORMAL, LinkClass.EXPRESS, LinkClass.SECURE


def broker(uid: str, *links: tuple[str, LinkClass, float | None], demoted: str = "") -> Status:
    """A broker with links of these classes and round trips, in milliseconds."""
    told = tuple(
        LinkStatus(
            other,
            f"chordal://{other}:1",
            None,
            link_class,
            (),
            0,
            0.0,
            None,
            rtt_ms=rtt_ms,
            jitter_ms=0.0,
            demoted=other in demoted and link_class is EXPRESS,
        )
        for other, link_class, rtt_ms in links
    )
    return msgspec.structs.replace(status(uid, "", ""), links=told)


def test_a_link_that_both_ends_tell_of_has_the_worse_weights() -> None:
    ring = [
        broker("a", ("b", NORMAL, 2.0), ("b", SECURE, 3.0), ("c", NORMAL, 1.0)),
        broker("b", ("a", NORMAL, 4.0), ("a", SECURE, 3.0)),
        broker("c", ("a", NORMAL, None)),
    ]
    found = multigraph(ring)
    normal, secure = found.links()
    assert normal == ("a", "b", NORMAL, Weights(nanos(0.004), 0))
    assert secure[:3] == ("a", "b", SECURE)
    assert as_networkx(found).edges["a", "b", "normal"]["rtt_ns"] == nanos(0.004)


def test_an_express_link_that_an_end_has_demoted_is_none() -> None:
    links = (NORMAL, 1.0), (EXPRESS, 1.0)
    ends = [
        broker(uid, *((other, *link) for link in links), demoted=demoted)
        for uid, other, demoted in (("a", "b", ""), ("b", "a", "a"))
    ]
    assert [link[2] for link in multigraph(ends).links()] == [NORMAL]


def test_each_class_has_a_resilience_of_its_own() -> None:
    def link(uid: str, other: str) -> list[tuple[str, LinkClass, float | None]]:
        classes = (NORMAL, SECURE) if {uid, other} <= set("abc") else (NORMAL,)
        return [(other, link_class, 1.0) for link_class in classes]

    ring = [
        broker(uid, *(each for other in "abcd" if other != uid for each in link(uid, other)))
        for uid in "abcd"
    ]
    found = resilience_of(ring)
    assert {c: (each.brokers, each.links, each.k) for c, each in found.items()} == {
        NORMAL: (4, 6, 3),
        EXPRESS: (0, 0, 0),
        SECURE: (3, 3, 2),
    }
