"""Messages, brought down to what they come to.

Two states of a broker that differ in nothing but how often something has changed are one state to
:mod:`sims.explore.explorer`. A snapshot may leave out what is never looked at
(:data:`sims.explore.snapshots.IGNORED`); what is compared, as the versions of views are, each part
of a broker has to make small itself (:meth:`ring.node.RingNode.normalise`), and here the same is
done to what is under way.
"""

from __future__ import annotations

from msgspec import structs

from overlay.machine import Message
from ring.wire.messages import Failed, View

SOMEBODY = ""  #: stands for all that bear witness to one death


def ageless(message: Message) -> Message:
    """Return what a message comes to: without a version, and without names of witnesses of a death.

    Those are only told on; but it counts whether there are any.
    """
    if isinstance(message, View):
        return message.ageless
    if isinstance(message, Failed):
        return structs.replace(message, witnesses=message.witnesses and (SOMEBODY,))
    return message
