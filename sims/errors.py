"""Errors of the sims package.

::

    ChordalError
    └── SimulationError
        ├── CampaignFailed       some runs of a campaign could not be done
        ├── NoSuchScope          asked to explore what is not there, or not with so many brokers
        └── InvariantViolated    the protocol broke a promise; the text says how to see it again
"""

from __future__ import annotations

from overlay.errors import ChordalError


class SimulationError(ChordalError):
    """Root of the simulator's errors."""

    code = "simulation"


class CampaignFailed(SimulationError):
    """Some runs of a campaign could not be done; what the others showed is kept."""

    code = "campaign-failed"


class NoSuchScope(SimulationError):
    """There is no such scenario to explore, or not with so many brokers, or not such choices."""

    code = "no-such-scope"


class InvariantViolated(SimulationError):
    """A run broke an invariant, or did not come to rest in time."""

    code = "promise-broken"
