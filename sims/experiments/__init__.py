"""Experiments on a ring in virtual time: from settings to rows, or step by step. Pure.

From settings
    ``experiment`` (settings, the run, its rows), ``summary`` (what it came to, for people).
Step by step
    ``cluster`` (a small ring, and the verbs that break it), ``record_rings`` (its brokers own
    records), ``watched_rings`` (it is asked for Zave's invariants all the time), ``deaths`` (one
    join, in which one of those concerned dies), ``one_death`` (what it costs a quiet ring, and who
    hears of it).
Whole brokers
    ``service`` (a ring of them with clients, and the verbs that break it), ``forgers`` (false
    brokers, who tell it lies), ``throwers`` (false brokers and clients, who throw odd frames at
    it), ``unit_joins`` (a whole unit is to join another context), ``machines`` (thousands of them,
    without the streams of events), ``walks`` (where an event goes by their tables).
"""

from __future__ import annotations

from sims.experiments.cluster import Cluster
from sims.experiments.experiment import Experiment, RunResult, run

__all__ = ["Cluster", "Experiment", "RunResult", "run"]
