"""How much happens in one step, where :mod:`sims.explore.explorer` tries all orders of steps.

The coarser the grain, the fewer the orders, and the larger the scopes that come to an end:

* ``packets``: what one broker sent another at one go arrives, by itself. This is the finest.
* ``reads``: all that is under way on one link arrives, as when a socket is read after a while.
* ``turns``: all that is under way to one broker arrives, link by link.

With the coarser two, links are made or refused in the step that asks for them, and the messages of
:data:`sims.explore.world.BACKGROUND` arrive in the step that sends them where nothing is under way
before them: so their order among the rest is not explored.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from sims.explore.state import Channel, State
from sims.explore.world import UntimedWorld


class Granularity(StrEnum):
    """What one step delivers."""

    PACKETS = "packets"
    READS = "reads"
    TURNS = "turns"


def choices(channels: Sequence[Channel], grain: Granularity) -> Sequence[Channel]:
    """Return one for each delivery that may be next, of the channels to one broker."""
    return channels[:1] if grain is Granularity.TURNS else channels


def together(
    state: State, channel: Channel, grain: Granularity
) -> list[tuple[Channel, tuple[int, ...]]]:
    """Return what arrives in the step named by ``channel``: numbers of items by channel."""
    if grain is Granularity.PACKETS:
        return [(channel, state.channels[channel][:1])]
    if grain is Granularity.READS:
        return [(channel, state.channels[channel])]
    channels = sorted(state.channels)
    return [(c, state.channels[c]) for c in channels if c.target == channel.target]


def arrive(world: UntimedWorld, state: State, channel: Channel, grain: Granularity) -> None:
    """Take the step named by ``channel``; what is lost meanwhile does not arrive."""
    if grain is Granularity.TURNS:
        world.touched |= dict.fromkeys((other, channel.target) for other in range(len(state.fate)))
    for one, items in together(state, channel, grain):
        for _ in items:
            if one in state.channels:
                world.deliver(state, one)


def at_once(world: UntimedWorld, state: State) -> None:
    """Let happen what a coarse step does not leave for later."""
    while True:
        ready = [
            channel
            for channel, items in state.channels.items()
            if channel.what in ("call", "answer") or world.is_background(items[0])
        ]
        if not ready:
            return
        world.deliver(state, min(ready))
