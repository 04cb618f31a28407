"""Work that makes many objects, few of them garbage, and no cycles of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_cycles_looked_for() -> Iterator[None]:
    """Do not look for cycles of garbage: among millions of objects that stay, it takes long."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
