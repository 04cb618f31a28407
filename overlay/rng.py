"""Named random streams: one per purpose, so that a new draw in one does not shift another."""

from __future__ import annotations

import random


def rng_for(seed: int | str, *path: object) -> random.Random:
    """Return the generator named by ``seed`` and ``path``.

    Seeding with a string makes the stream independent of the process and of ``PYTHONHASHSEED``.
    """
    return random.Random(":".join(str(part) for part in (seed, *path)))
