"""Looking at a live overlay from outside. Runs on trio; its door is :func:`walk_ring`.

``walk`` (from broker to broker), ``resilience`` (how many failures it survives), ``overlay_graph``
(the graph of them, from ``links``), ``unit_tree`` (clusters and above), ``backup_check`` (copies
on ring neighbours), ``explain`` (where an event would go, and why), ``find_event`` (what became of
one), ``pings`` (round trips of events), ``attached`` (clients of all brokers), ``draining``
(having one leave), ``unit_joining`` (a whole unit joins another one), ``rates`` (between two
looks), ``metrics`` (a status for Prometheus), ``local_brokers`` (brokers as processes on this
machine).
"""

from __future__ import annotations

from ges.operations.backup_check import BackedUp, judge_backups
from ges.operations.overlay_graph import multigraph, resilience_of
from ges.operations.resilience import Resilience
from ges.operations.walk import Walk, walk_ring

__all__ = [
    "BackedUp",
    "Resilience",
    "Walk",
    "judge_backups",
    "multigraph",
    "resilience_of",
    "walk_ring",
]
