"""What decides who wants an event: its class, its topic, and how far it comes and goes.

For example, an event on ``sensors/7`` is published in cluster 0.0.1, and its realm is
``super-cluster``. At its source it is a matter of all units below level 2. Where it comes into
cluster 0.0.2 it is a matter of the members there alone, and comes from level 2: a subscription
there whose realm is ``cluster`` does not get it. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from ges.wire.realms import Realm
from overlay.ids import LinkClass


class Matter(NamedTuple):
    """One event, or a run of events, as a broker that looks for its subscribers sees it."""

    link_class: LinkClass
    topic: bytes  #: as it stands in the event
    below: int = Realm.ALL  #: it is for units of lower levels than this
    #: The level of the smallest unit that has both its source and this broker in it.
    common: int = Realm.CLUSTER
