"""How often Python looks for garbage in a large simulated world.

A world is millions of objects that live as long as the run does. Python's collector looks through
all of them again whenever they have grown by a quarter, and finds nothing: in a ring of 16384
brokers that took a third of the time. Reference counts free the objects that a run throws away.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: New objects until the youngest are looked through; how often that is done until the next older
#: ones are, and how often those until all are. So a long run looks at each object some three times.
SELDOM = (200_000, 10, 1000)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Look for garbage seldom, as long as the body runs."""
    before = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
