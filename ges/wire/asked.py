"""What somebody asks for: one value from the client's call to what all brokers are told.

For example, a client subscribes to ``sensors/#`` for its cluster alone, in the queue group
``workers``. Its :class:`Ask` is ``Ask("sensors/#", 7, "workers", 1)``. The same value stands in the
request of the client, at its session, in the profile of its broker, in the statements of units, and
in the request by which the client moves to another broker. So whatever one may ask for is declared
here and nowhere else. Asks are made, compared and joined in :mod:`ges.matching.asks`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ges.wire.realms import Realm
from ges.wire.topics import MAX_QUEUE_NAME, MAX_TOPIC_BYTES
from overlay.ids import LinkClass

MAX_GROUP_NAME = MAX_QUEUE_NAME
EVERYTHING = ""  #: the filter of those who want all events, those on topics of the system as well

#: The bit of each class of events.
CLASS_BITS = {LinkClass.NORMAL: 1, LinkClass.EXPRESS: 2, LinkClass.SECURE: 4}
ALL_CLASSES = sum(CLASS_BITS.values())

GroupName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_GROUP_NAME)]
WireRealm = Annotated[int, msgspec.Meta(ge=int(Realm.CLUSTER), le=int(Realm.ALL))]


class Ask(msgspec.Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """Which events somebody wants, and with whom it shares them."""

    #: topics; :data:`EVERYTHING` only as brokers make it
    filter: Annotated[str, msgspec.Meta(max_length=MAX_TOPIC_BYTES)]
    classes: Annotated[int, msgspec.Meta(ge=1, le=ALL_CLASSES)] = ALL_CLASSES  #: one bit each
    group: GroupName | None = None  #: the queue group one member of which gets each event
    realm: WireRealm = int(Realm.ALL)  #: only events published in the same unit of that level

    @property
    def is_everything(self) -> bool:
        """It is for all topics, those of the system among them; no client may ask so."""
        return self.filter == EVERYTHING

    def takes(self, link_class: LinkClass) -> bool:
        """Say whether it is for events of a class."""
        return bool(self.classes & CLASS_BITS[link_class])

    @property
    def link_classes(self) -> tuple[LinkClass, ...]:
        """The classes of the events that it is for."""
        return tuple(each for each, bit in CLASS_BITS.items() if self.classes & bit)

    @property
    def only(self) -> LinkClass | None:
        """The only class of events that it is for; None: several."""
        return self.link_classes[0] if len(self.link_classes) == 1 else None
