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

    code = "ring"


class JoinFailed(RingError):
    """The ring at the given addresses will not take this broker."""

    code = "join-failed"


class InvariantBroken(RingError):
    """A ring breaks its invariants; the text has the first finding, ``findings`` has all."""

    code = "ring-not-whole"

    def __init__(self, findings: tuple[str, ...]) -> None:
        number = len(findings)
        more = "" if number == 1 else f"the ring is not whole, for {number} reasons; the first: "
        super().__init__(more + findings[0])
        self.findings = findings
