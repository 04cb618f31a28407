"""What brokers say to each other about what their clients want.

A broker tells only its own profile, and nobody passes on that of another, but which version of it
holds. So each message names the broker whose profile it is about. The epoch of a version is the
incarnation of that broker, and its count that of changes in that life: 0 is an empty profile.

Texts in one message take less than 48 KiB together; its maker sees to that.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ges.wire.asked import Ask
from ges.wire.telling_messages import RowVersion
from overlay.ids import WireCount, WireUid
from overlay.machine import Message

MAX_ASKS_TOLD = 4096  #: in one message
MAX_PAGES = 64  #: of one profile

Digest = WireCount  #: 63 bits


Asks = Annotated[tuple[Ask, ...], msgspec.Meta(max_length=MAX_ASKS_TOLD)]


class ProfileDelta(Message, frozen=True):
    """The profile of ``origin`` is now of version ``after``; told to all members.

    ``before`` and ``after`` may be the same: then it says which version holds, and no more.
    """

    origin: WireUid
    before: RowVersion
    after: RowVersion
    added: Asks
    removed: Asks
    digest: Digest  #: of the profile after the change
    life: WireCount = 0  #: of the one member that this is sent to, as its sender knows; 0: to all


class ProfileTaken(Message, frozen=True):
    """The sender holds this version of your profile."""

    version: RowVersion


class ProfilePage(Message, frozen=True):
    """A part of the profile of ``origin``; all parts of one version are the whole."""

    origin: WireUid
    version: RowVersion
    digest: Digest  #: of the whole profile
    page: Annotated[int, msgspec.Meta(ge=0, lt=MAX_PAGES)]
    pages: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGES)]
    asks: Asks
    life: WireCount  #: of the member that this is sent to, as its sender knows


PROFILE_MESSAGES: tuple[type[Message], ...] = (
    ProfileDelta,
    ProfileTaken,
    ProfilePage,
)
