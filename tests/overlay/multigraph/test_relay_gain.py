"""What a relay path must save, and which bars make no sense."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.errors import ConfigError
from overlay.ids import nanos
from overlay.multigraph.relay_gain import RelayGain, check_gain

MS = nanos(0.001)


@pytest.mark.parametrize(
    ("cost", "than", "is_reached", "is_lost"),
    [
        (4, 5, True, False),  # a fifth, and a millisecond
        (1, 2, True, False),
        (1.5, 2, False, False),  # a quarter, but half a millisecond
        (1.6, 2, False, True),  # a fifth, but 0.4 ms
        (81, 100, False, False),
        (91, 100, False, True),  # 9 ms, but less than a tenth
        (5, 5, False, True),
        (6, 5, False, True),
    ],
)
def test_a_share_and_a_time_are_to_be_saved(
    cost: float, than: float, is_reached: bool, is_lost: bool
) -> None:
    gain, costs = RelayGain(), (round(cost * MS), round(than * MS))
    assert (gain.is_reached(*costs), gain.is_lost(*costs)) == (is_reached, is_lost)


def test_of_a_cost_that_is_not_known_nothing_is_said() -> None:
    gain = RelayGain()
    for costs in ((None, 5 * MS), (5 * MS, None), (None, None)):
        assert not gain.is_reached(*costs)
        assert not gain.is_lost(*costs)


@given(
    st.integers(1, 10**10),
    st.integers(1, 10**10),
    st.floats(0, 0.9),
    st.integers(0, nanos(10)),
)
def test_what_is_reached_is_not_lost(cost: int, than: int, share: float, time_ns: int) -> None:
    gain = check_gain(share, time_ns)
    assert not (gain.is_reached(cost, than) and gain.is_lost(cost, than))
    assert cost < than or gain.is_lost(cost, than)


@pytest.mark.parametrize("share", [-0.1, 0.91, 20, math.nan])
def test_a_share_that_makes_no_sense_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match=r"a relay gain of .* of the cost: give 0 to 0\.9"):
        check_gain(share, 0)


@pytest.mark.parametrize("time_ns", [-1, nanos(10) + 1])
def test_a_time_that_makes_no_sense_is_refused(time_ns: int) -> None:
    with pytest.raises(ConfigError, match=r"a relay gain of .* ms: give 0 to 10 s"):
        check_gain(0.2, time_ns)
