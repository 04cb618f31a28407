"""Errors of the ring package.

::

    ChordalError
    └── RingError
        ├── JoinFailed          the ring will not take this broker; trying again is of no use
        └── InvariantBroken     a ring that should be whole is not; ``findings`` says where
"""

from __future__ import annotations

from overlay.errors import ChordalError


class RingError(ChordalError):
    """Root of the ring package's errors."""


class JoinFailed(RingError):
    """The ring at the given addresses will not take this broker."""


class InvariantBroken(RingError):
    """A ring breaks its invariants; one finding a line."""

    def __init__(self, findings: tuple[str, ...]) -> None:
        super().__init__("\n".join(findings))
        self.findings = findings
