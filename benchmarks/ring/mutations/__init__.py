"""Mutants of the ring protocol: each is one rule of it broken, applied at run time.

A mutant replaces a method of a class in ``ring``. Where that method is gone, or no longer has what
the mutant touches, applying or running it raises :class:`~.mutant.OutOfDate`: a mutant that breaks
nothing would count as proof of nothing.
"""

from __future__ import annotations

from benchmarks.ring.mutations.chords import CHORDS
from benchmarks.ring.mutations.deaths import DEATHS
from benchmarks.ring.mutations.joins import JOINS
from benchmarks.ring.mutations.links import LINKS
from benchmarks.ring.mutations.merge import MERGE
from benchmarks.ring.mutations.mutant import Mutant, OutOfDate
from benchmarks.ring.mutations.pointers import POINTERS
from benchmarks.ring.mutations.records import RECORDS
from benchmarks.ring.mutations.suspicion import SUSPICION

__all__ = ["MUTANTS", "Mutant", "OutOfDate"]

MUTANTS: tuple[Mutant, ...] = (
    *POINTERS,
    *JOINS,
    *SUSPICION,
    *DEATHS,
    *LINKS,
    *CHORDS,
    *MERGE,
    *RECORDS,
)
