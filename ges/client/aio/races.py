"""Several tasks, of which the first to end ends all."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_of(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run all until one has ended, and cancel the others.

    Raises:
        Exception: whatever one of them raises.
    """
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if end is not None and not isinstance(end, asyncio.CancelledError):
            raise end
