"""One broker's process. Runs on trio, and uses files.

Composed and run
    ``config`` (settings, checked), ``parts`` (what it consists of), ``upper`` (what the driver
    brings), ``router_timer``, ``broker`` (runs them).
What it keeps
    ``data_directory``, ``recorder`` (its trace).
What it says of itself
    ``status``, ``link_status``, ``fact_log``.
What may change while it runs
    ``access_watch`` (rules and tokens), ``identity_watch`` (its certificate), ``revocation_watch``
    (who is revoked), ``certified_peers`` (whose connections end then).
"""

from __future__ import annotations

from ges.broker.broker import Broker
from ges.broker.config import BrokerConfig

__all__ = ["Broker", "BrokerConfig"]
