"""One broker's process. Runs on trio, and uses files.

Composed and run
    ``broker``, ``router_timer``.
What it keeps
    ``data_directory``, ``recorder`` and ``live_run`` (its trace).
What it says of itself
    ``status``, ``link_status``, ``fact_log``.
What may change while it runs
    ``access_watch`` (rules and tokens), ``identity_watch`` (certificates).
"""

from __future__ import annotations

from ges.broker.broker import Broker, BrokerConfig

__all__ = ["Broker", "BrokerConfig"]
