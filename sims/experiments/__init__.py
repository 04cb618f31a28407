"""Simulated brokers in virtual time, and the verbs that break them. Pure.

The ring alone
    ``cluster`` (a small ring), ``record_rings`` (its brokers own records).
Whole brokers
    ``service`` (a ring of them with clients, and the verbs that break it), ``forgers`` (false
    brokers, who tell it lies), ``throwers`` (false brokers and clients, who throw odd frames at
    it), ``unit_joins`` (a whole unit is to join another context), ``machines`` (thousands of them,
    without the streams of events), ``walks`` (where an event goes by their tables).
"""

from __future__ import annotations

from sims.experiments.cluster import Cluster

__all__ = ["Cluster"]
