"""Errors of the ring package.

::

    ChordalError
    └── RingError
        └── InvariantBroken     a ring that should be whole is not; ``findings`` says where
"""

from __future__ import annotations

from overlay.errors import ChordalError


class RingError(ChordalError):
    """Root of the ring package's errors."""


class InvariantBroken(RingError):
    """A ring breaks its invariants; one finding a line."""

    def __init__(self, findings: tuple[str, ...]) -> None:
        super().__init__("\n".join(findings))
        self.findings = findings
