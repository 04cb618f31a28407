"""What the papers print of profiles, with topics in place of attributes.

P0 is "Grid Event Service protocols", P1 the paper on matching. The figures themselves are not in
the texts we have: those of figures 8 and 9 are one example that fits every word of them.
"""

from __future__ import annotations

import pytest

from ges.matching.asks import ask_for
from ges.profiles.index import ProfileIndex
from ges.wire.matter import Matter
from overlay.ids import LinkClass

U1, U2 = 0b01, 0b10


def index_of(*profiles: list[str]) -> ProfileIndex:
    """Return the index of members in slots 0, 1 and so on, with these filters."""
    index = ProfileIndex()
    index.set_slots({str(slot): slot for slot in range(len(profiles))})
    for slot, profile in enumerate(profiles):
        index.replace(str(slot), map(ask_for, profile))
    return index


@pytest.mark.parametrize(
    ("event", "destinations"),
    [("1/2/3", U1 | U2), ("1/2/4", U2), ("1/5/3", U1), ("1/5/4", 0), ("2/2/3", 0)],
)
def test_p0_figures_8_and_9(event: str, destinations: int) -> None:
    """u1: A=1,B=2,C=3 and A=1,B=*,C=3; u2: A=1,B=2,C=*. The order of attributes is that of levels.

    A tree of profiles must not add two partial matches up: 1/5/4 matches the first two levels of
    one profile of u1 and nothing whole.
    """
    index = index_of(["1/2/3", "1/+/3"], ["1/2/+"])
    assert index.mask_of(Matter(LinkClass.NORMAL, event.encode())) == destinations


def test_p0_figure_9_without_the_third_profile() -> None:
    """An edge goes when its last unit goes; what is left of u1 matches as before."""
    index = index_of(["1/2/3", "1/+/3"], ["1/2/+"])
    index.change("0", (), [ask_for("1/+/3")])
    found = [
        index.mask_of(Matter(LinkClass.NORMAL, each)) for each in (b"1/5/3", b"1/2/3", b"1/2/4")
    ]
    assert found == [0, U1 | U2, U2]


def test_p1_section_7_1_3() -> None:
    """Make=Ford, Model=*, Color=Red matches Taurus and Mustang in red."""
    index = index_of(["Ford/+/Red"])
    for event, wanted in {
        **{"Ford/Taurus/Red": 1, "Ford/Mustang/Red": 1},
        **{"Ford/Mustang/Blue": 0, "Honda/Civic/Red": 0},
    }.items():
        assert index.mask_of(Matter(LinkClass.NORMAL, event.encode())) == wanted


def test_p1_section_7_two_brokers_make_one_destination() -> None:
    """Two brokers with bits 0..001 and 0..010 make the destination 0..011."""
    index = index_of(["a/b"], ["a/#"], ["c"])
    assert index.mask_of(Matter(LinkClass.NORMAL, b"a/b")) == 0b011


def test_p0_section_3_3_properties() -> None:
    """(a): what is sent to a unit has an interested client there. (b): no event is kept from one.

    A profile that is minimal under covering keeps both: what is left out changes no mask.
    """
    whole, minimal = index_of(["a/b", "a/+", "a/b/c", "$x/y"]), index_of(["a/+", "a/b/c", "$x/y"])
    for topic in (b"a/b", b"a/c", b"a/b/c", b"a/b/d", b"a", b"$x/y", b"b"):
        for each in LinkClass:
            assert whole.mask_of(Matter(each, topic)) == minimal.mask_of(Matter(each, topic))
