"""Links that flap are used again after a pause that grows."""

from __future__ import annotations

from overlay.ids import nanos
from ring.circle.damping import FIRST_PAUSE, FORGIVEN, MAX_DOUBLINGS, MAX_WATCHED, STEADY, Damper
from ring.config import LAN, WAN

B = "b" * 32
SECOND = nanos(1)
FIRST = FIRST_PAUSE * LAN.silence_ns
STEADY_NS = STEADY * LAN.silence_ns


def flapping(damper: Damper, losses: int, now: int = 0) -> int:
    """Lose the link that often, a second apart; returns the pause after the last loss."""
    for _ in range(losses):
        damper.on_lost(B, now, now + SECOND)
        now += SECOND
    return damper.held_ns(B, now)


def test_the_first_losses_are_forgiven() -> None:
    assert flapping(Damper(LAN), FORGIVEN) == 0


def test_each_further_loss_doubles_the_pause_up_to_a_limit() -> None:
    pauses = [flapping(Damper(LAN), FORGIVEN + more) for more in range(1, MAX_DOUBLINGS + 4)]
    doubled = [FIRST << step for step in range(MAX_DOUBLINGS + 1)]
    assert pauses == [*doubled, doubled[-1], doubled[-1]]


def test_pauses_follow_the_profile() -> None:
    assert flapping(Damper(WAN), FORGIVEN + 1) == FIRST_PAUSE * WAN.silence_ns


def test_a_pause_passes() -> None:
    damper = Damper(LAN)
    damper.on_lost(B, 0, 1)
    damper.on_lost(B, 1, 2)
    damper.on_lost(B, 2, 3)
    assert damper.held_ns(B, 3 + FIRST - 1) == 1
    assert damper.held_ns(B, 3 + FIRST) == 0


def test_a_link_that_has_held_starts_anew() -> None:
    damper = Damper(LAN)
    flapping(damper, FORGIVEN)
    damper.on_lost(B, 0, STEADY_NS)
    assert damper.held_ns(B, STEADY_NS) == 0
    damper.on_lost(B, STEADY_NS, STEADY_NS + 1)
    assert damper.held_ns(B, STEADY_NS + 1) == 0
    damper.on_lost(B, STEADY_NS + 1, STEADY_NS + 2)
    assert damper.held_ns(B, STEADY_NS + 2) == FIRST


def test_one_that_is_released_may_be_used_but_its_losses_count_on() -> None:
    damper = Damper(LAN)
    flapping(damper, FORGIVEN + 1)
    damper.release(B)
    assert damper.held_ns(B, 0) == 0
    assert flapping(damper, 1) == 2 * FIRST


def test_another_life_starts_anew() -> None:
    damper = Damper(LAN)
    flapping(damper, FORGIVEN + 1)
    damper.forget(B)
    assert (damper.held_ns(B, 0), damper.down_ns(B, SECOND)) == (0, 0)


def test_how_long_a_link_is_down() -> None:
    damper = Damper(LAN)
    damper.on_lost(B, 0, SECOND)
    assert damper.down_ns(B, 3 * SECOND) == 2 * SECOND
    assert damper.down_ns("c" * 32, SECOND) == 0


def test_only_so_many_are_watched() -> None:
    damper = Damper(LAN)
    damper.on_lost(B, 0, 1)
    for number in range(MAX_WATCHED):
        damper.on_lost(f"{number:032x}", 0, 2)
    assert damper.down_ns(B, 5) == 0
    assert damper.down_ns(f"{0:032x}", 5) == 3
