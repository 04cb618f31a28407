"""A reader that has fed crowded queues waits for room.

It waits for links as for a part of the broker, for the fastest of the subscribers, and for the
others hardly at all.

A link that is crowded is waited for (:meth:`overlay.net.connection.Connection.hold`). Subscribers
are not all waited for, or the slowest of them would hold up all others:

- if all of them that were fed are crowded, until one of those that are fast has room;
- for the other fast ones after that, and if one that was fed has room all along, as long as the
  allowance lasts, once their queues are a quarter full: before that nothing is in danger, and a
  reader that waits makes others late;
- for new ones, of which it is not known yet whether they are fast, as long as the allowance lasts,
  once their queues are a quarter full, and not where another subscriber's queue has room;
- for slow ones not at all.

A queue that nobody waits for fills up to its limit, and then its policy acts
(:mod:`overlay.queues.pace` says who is fast).
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from overlay.net.turn import Turn, Waiting
from overlay.queues.pace import Allowance, Standing

LEAST_SECONDS = 0.001  #: timers wake no sooner than that


async def hold_back(turn: Turn, allowance: Allowance) -> None:
    """Wait for the queues that are crowded since this was called last."""
    crowded, has_room = turn.take_crowded()
    links = [queue for queue in crowded if queue.pace is None and queue.may_hold]
    found: dict[Standing, list[Waiting]] = {standing: [] for standing in Standing}
    now = trio.current_time()
    for queue in crowded:
        if queue.pace is not None:
            found[queue.pace.standing(now)].append(queue)
    fast, new = found[Standing.FAST], found[Standing.NEW]
    if not links:
        await _hold_for_subscribers(fast, new, allowance, has_room=has_room)
        return
    async with trio.open_nursery() as nursery:
        for link in links:
            nursery.start_soon(link.hold)
        await _hold_for_subscribers(fast, new, allowance, has_room=has_room)


async def _hold_for_subscribers(
    fast: Sequence[Waiting], new: Sequence[Waiting], allowance: Allowance, *, has_room: bool
) -> None:
    if fast:
        if not has_room:
            now = trio.current_time()
            earned = max(queue.pace.left(now) for queue in fast if queue.pace is not None)
            await _first_room(fast, earned)
        lagging = [queue for queue in fast if queue.crowded and queue.pressed]
        if lagging:
            await _spend(allowance, lagging, is_any_enough=False)
    elif new and not has_room and all(queue.pressed for queue in new):
        await _spend(allowance, new, is_any_enough=True)


async def _spend(allowance: Allowance, queues: Sequence[Waiting], *, is_any_enough: bool) -> None:
    began = trio.current_time()
    left = allowance.left(began)
    if left < LEAST_SECONDS:
        return
    if is_any_enough:
        await _first_room(queues, left)
    else:
        with trio.move_on_after(left):
            for queue in queues:
                await queue.room()
    allowance.spend(trio.current_time() - began)


async def _first_room(queues: Sequence[Waiting], seconds: float) -> None:
    with trio.move_on_after(seconds) as scope:
        if len(queues) == 1:
            await queues[0].room()
            return
        async with trio.open_nursery() as nursery:
            for queue in queues:
                nursery.start_soon(_end_with_room, queue, scope)


async def _end_with_room(queue: Waiting, scope: trio.CancelScope) -> None:
    await queue.room()
    scope.cancel()
