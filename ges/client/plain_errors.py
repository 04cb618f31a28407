"""Errors as documented, out of the groups that nurseries and task groups wrap them in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def plain_errors() -> AsyncIterator[None]:
    """Let the caller catch errors as documented, not wrapped in a group by what is inside."""
    try:
        yield
    except BaseExceptionGroup as group:
        # Who waits for a broker, and who keeps the connection, lose it both at once.
        leaves = {repr(leaf): leaf for leaf in _leaves(group)}
        if len(leaves) > 1:
            raise
        (inner,) = leaves.values()
        raise inner from inner.__cause__


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for inner in group.exceptions:
        if isinstance(inner, BaseExceptionGroup):
            yield from _leaves(inner)
        else:
            yield inner
