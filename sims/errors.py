"""Errors of the sims package.

::

    ChordalError
    └── SimulationError
        └── InvariantViolated    the protocol broke a promise; the text says how to see it again
"""

from __future__ import annotations

from overlay.errors import ChordalError


class SimulationError(ChordalError):
    """Root of the simulator's errors."""


class InvariantViolated(SimulationError):
    """A run broke an invariant, or did not come to rest in time."""
