"""One broker's process. Runs on trio, and uses files.

Composed and run
    ``config`` (settings, checked), ``parts`` (what it consists of), ``upper`` (takes what the
    driver brings), ``router_timer`` (calls the router in time), ``broker`` (runs them), ``drills``
    (breaks it when a drill asks).
What others make it hold
    ``memory_budget`` (one for all), ``memory_pools`` (what counts against it).
What it keeps
    ``data_directory``, ``recorder`` (its trace).
What it says of itself
    ``status`` (for ``chordal status``), ``link_status`` (of its links), ``fact_log`` (to its log),
    ``trace_log`` (of events that belong to a trace).
What may change while it runs
    ``access_watch`` (rules and tokens), ``identity_watch`` (its certificate), ``revocation_watch``
    (who is revoked), ``certified_peers`` (whose connections end then).
"""

from __future__ import annotations

from ges.broker.broker import Broker
from ges.broker.config import BrokerConfig

__all__ = ["Broker", "BrokerConfig"]
