"""Mutants of the protocols: each is one rule of them broken, applied at run time.

A mutant replaces a method of a class in ``ring`` or ``ges``. Where that method is gone, or no
longer has what the mutant touches, applying or running it raises :class:`~.mutant.OutOfDate`: a
mutant that breaks nothing would count as proof of nothing.

``python -m tests.mutants`` plays stories against all of them; with ``--by`` it runs tests.

Playing
    ``__main__`` (the command), ``hunt`` (who notices), ``by`` (which files of
    tests notice), ``mutant`` (what one is), ``test_mutants``.
Broken rules, by what they are about
    ``pointers``, ``joins``, ``suspicion``, ``deaths``, ``links``, ``chords``, ``merge``,
    ``records``; of the event service ``events``, ``frames`` (that are read too late), ``levels``:
    between clusters, and ``unit_tables``: which clusters there are.
"""

from __future__ import annotations

from tests.mutants.chords import CHORDS
from tests.mutants.deaths import DEATHS
from tests.mutants.events import EVENTS
from tests.mutants.frames import FRAMES
from tests.mutants.joins import JOINS
from tests.mutants.levels import LEVELS
from tests.mutants.links import LINKS
from tests.mutants.merge import MERGE
from tests.mutants.mutant import Mutant, OutOfDate
from tests.mutants.pointers import POINTERS
from tests.mutants.records import RECORDS
from tests.mutants.suspicion import SUSPICION
from tests.mutants.unit_tables import UNIT_TABLES

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
    *EVENTS,
    *FRAMES,
    *LEVELS,
    *UNIT_TABLES,
)
