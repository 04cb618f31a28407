"""What the papers' figures and texts say of units, one test for each statement.

The figures themselves are not in the texts: who else is in figure 4 is assumed.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from overlay.errors import ConfigError
from tests.ges.units.request_vector import (
    AskNext,
    Connected,
    Failed,
    Path,
    System,
    level_between,
    parse_vector,
    place,
    why_unit_may_not,
)


def at(text: str) -> Path:
    """Return a broker of super-super-cluster B: ``SC-6.n.21``."""
    c, b, a = text.split(".")
    return "SSC-B", c, b, a


N21 = at("SC-6.n.21")
#: Cluster n has three brokers; m is the other cluster of SC-6; SC-4 and SC-5 have two each.
FIGURE_4 = System(
    [
        *map(at, ("SC-6.n.21", "SC-6.n.20", "SC-6.n.22", "SC-6.m.1", "SC-6.m.2")),
        *map(at, ("SC-4.k.1", "SC-4.l.2", "SC-5.p.1", "SC-5.q.2")),
        ("SSC-A", "SC-1", "a", "1"),
    ],
    [
        (at("SC-6.n.21"), at("SC-6.n.20")),
        (at("SC-6.n.20"), at("SC-6.n.22")),
        (at("SC-6.n.22"), at("SC-6.m.1")),
        (at("SC-6.m.1"), at("SC-6.m.2")),
        (at("SC-6.n.21"), at("SC-4.k.1")),
        (at("SC-4.k.1"), at("SC-4.l.2")),
        (at("SC-5.p.1"), at("SC-5.q.2")),
    ],
)


def full(*brokers: str, level: int) -> System:
    """Return figure 4 with these brokers at their threshold of a level."""
    limits = [64] * 4
    limits[level] = 0
    return replace(FIGURE_4, thresholds={at(each): tuple(limits) for each in brokers})


def test_figure_4_00000011_is_a_broker_of_n_with_a_link_to_another_cluster_of_sc_6() -> None:
    found = place(FIGURE_4, N21, parse_vector("00000011"))
    assert isinstance(found, Connected)
    assert found.unit == N21[:3]
    assert found.links[0] == N21
    assert found.links[1][:2] == ("SSC-B", "SC-6")
    assert found.links[1][2] != "n"


def test_figure_4_00000110_is_a_cluster_gateway_in_sc_4_or_sc_5_and_a_level_2_gateway_to_sc_6() -> (
    None
):
    found = place(FIGURE_4, N21, parse_vector("00000110"))
    assert isinstance(found, Connected)
    assert found.unit[1] in ("SC-4", "SC-5")
    assert found.links[2][:2] == ("SSC-B", "SC-6")
    assert found.links[1][1] == found.unit[1]
    assert found.links[1][2] != found.unit[2]


def test_figure_4_n_21_at_its_threshold_forwards_to_another_broker_of_n() -> None:
    found = place(full("SC-6.n.21", level=0), N21, parse_vector("00000001"))
    assert found == Connected(N21[:3], {0: at("SC-6.n.20")})


def test_figure_4_all_of_n_at_their_thresholds_answer_with_level_1_gatekeepers() -> None:
    crowded = full("SC-6.n.20", "SC-6.n.21", "SC-6.n.22", level=0)
    assert place(crowded, N21, parse_vector("00000001")) == AskNext((at("SC-6.m.1"),))


def test_figure_4_who_does_not_satisfy_the_rule_of_n_is_not_forwarded() -> None:
    closed = replace(FIGURE_4, admits=lambda broker: broker[2] != "n")
    assert isinstance(place(closed, N21, parse_vector("00000001")), Failed)


def test_figure_4_level_1_to_n_is_a_broker_of_cluster_m() -> None:
    found = place(FIGURE_4, N21, parse_vector("00000010"))
    assert isinstance(found, Connected)
    assert found.unit == at("SC-6.m.1")[:3]
    assert found.links == {0: at("SC-6.m.1"), 1: N21}


def test_figure_4_level_1_to_n_fails_where_no_other_cluster_of_sc_6_accepts() -> None:
    closed = replace(FIGURE_4, admits=lambda broker: broker[1:3] != ("SC-6", "m"))
    assert isinstance(place(closed, N21, parse_vector("00000010")), Failed)
    crowded = full("SC-6.m.1", "SC-6.m.2", level=0)
    assert isinstance(place(crowded, N21, parse_vector("00000010")), Failed)


def test_figure_4_level_1_to_n_fails_where_all_of_n_are_at_their_thresholds() -> None:
    crowded = full("SC-6.n.20", "SC-6.n.21", "SC-6.n.22", level=1)
    assert isinstance(place(crowded, N21, parse_vector("00000010")), Failed)


def test_section_3_1_1_levels_3_and_2_vary_from_level_3_and_above() -> None:
    more = replace(
        FIGURE_4, brokers=[*FIGURE_4.brokers, ("SSC-A", "SC-2", "b", "1")]
    )  # so that there is another super-cluster in SSC-A
    found = place(more, N21, parse_vector("00001100"))
    assert isinstance(found, Connected)
    assert found.unit[0] == "SSC-A"
    assert found.links[3][0] == "SSC-B"
    assert found.links[2][0] == "SSC-A"


def test_section_3_1_1_from_puts_the_newcomer_into_the_unit_of_the_addressee() -> None:
    found = place(FIGURE_4, N21, parse_vector("10000100"))
    assert isinstance(found, Connected)
    assert found.unit[:2] == ("SSC-B", "SC-6")
    assert found.links[2][1] in ("SC-4", "SC-5")


@pytest.mark.parametrize("vector", ["00000001", "00000010", "00001010", "00001001"])
def test_figure_4_sc_10_that_joins_may_ask_for_no_level_below_its_own(vector: str) -> None:
    assert why_unit_may_not(2, parse_vector(vector)) is not None


def test_figure_4_sc_10_joins_with_level_3() -> None:
    assert why_unit_may_not(2, parse_vector("00001000")) is None


def test_section_2_1_2_brokers_that_differ_at_a_level_are_gatekeepers_of_it() -> None:
    assert level_between(N21, at("SC-6.n.20")) == 0
    assert level_between(N21, at("SC-6.m.1")) == 1
    assert level_between(N21, at("SC-4.k.1")) == 2
    assert level_between(N21, ("SSC-A", "SC-1", "a", "1")) == 3


@pytest.mark.parametrize("text", ["", "0000011", "00000000", "00010000", "0000001x", "10000000"])
def test_what_is_no_request_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_vector(text)
