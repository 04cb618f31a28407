"""What brokers say to each other about what their clients want.

A broker tells only its own profile, and nobody passes on that of another; so each message names the
broker whose profile it is about, and who makes it is that broker. Texts in one message take less
than 48 KiB together; whoever makes it sees to that.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ges.wire.realms import Realm
from ges.wire.topics import MAX_QUEUE_NAME, MAX_TOPIC_BYTES
from overlay.ids import WireCount, WireUid
from overlay.machine import Message
from overlay.wire.versions import PROFILES

MAX_GROUP_NAME = MAX_QUEUE_NAME
MAX_INTERESTS_TOLD = 4096  #: in one message
MAX_PAGES = 64  #: of one profile
MAX_PROFILES = 128  #: members of a cluster; two tables of members may be about for a moment
ALL_CLASSES = 7

Digest = WireCount  #: 63 bits
GroupName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_GROUP_NAME)]
WireRealm = Annotated[int, msgspec.Meta(ge=int(Realm.CLUSTER), le=int(Realm.ALL))]


class Interest(msgspec.Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """Something that somebody asked for: what the members of a profile are.

    :mod:`ges.profiles.interest` makes them, and says when one covers another.
    """

    engine: Annotated[int, msgspec.Meta(ge=0, le=255)]  #: which kind of filter it is
    filter: Annotated[str, msgspec.Meta(max_length=MAX_TOPIC_BYTES)]  #: in canonical form
    classes: Annotated[int, msgspec.Meta(ge=1, le=ALL_CLASSES)]  #: of events, one bit each
    group: GroupName | None = None
    realm: WireRealm = 4  #: only events published in the same unit of that level; 4: all


Interests = Annotated[tuple[Interest, ...], msgspec.Meta(max_length=MAX_INTERESTS_TOLD)]


class ProfileVersion(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which state of a broker's profile. Count 0 is the profile without any interest."""

    epoch: WireCount  #: the broker's incarnation
    count: WireCount  #: of its changes in that life


class ProfileDelta(Message, frozen=True):
    """The profile of ``origin`` is now of version ``after``; told to all members.

    ``before`` and ``after`` may be the same: then it says which version holds, and no more.
    """

    origin: WireUid
    before: ProfileVersion
    after: ProfileVersion
    added: Interests
    removed: Interests
    digest: Digest  #: of the profile after the change
    life: WireCount = 0  #: of the one member that this is sent to, as its sender knows; 0: to all
    capability = PROFILES


class ProfileTaken(Message, frozen=True):
    """The sender holds this version of your profile."""

    version: ProfileVersion
    capability = PROFILES


class ProfileWanted(Message, frozen=True):
    """Send me all of your profile; the answer is :class:`ProfilePage`, once or more often."""

    capability = PROFILES


class ProfilePage(Message, frozen=True):
    """A part of the profile of ``origin``; all parts of one version are the whole."""

    origin: WireUid
    version: ProfileVersion
    digest: Digest  #: of the whole profile
    page: Annotated[int, msgspec.Meta(ge=0, lt=MAX_PAGES)]
    pages: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGES)]
    interests: Interests
    life: WireCount  #: of the member that this is sent to, as its sender knows
    capability = PROFILES


class HeldProfile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the sender holds of one member's profile; count 0 and epoch 0: nothing."""

    origin: WireUid
    version: ProfileVersion
    digest: Digest


class HeldProfilesWanted(Message, frozen=True):
    """Say which profiles you hold; the answer is :class:`HeldProfiles`."""

    capability = PROFILES


class HeldProfiles(Message, frozen=True):
    """Which profiles the sender holds, or those of which the receiver's is out of date."""

    held: Annotated[tuple[HeldProfile, ...], msgspec.Meta(max_length=MAX_PROFILES)]
    capability = PROFILES


PROFILE_MESSAGES: tuple[type[Message], ...] = (
    ProfileDelta,
    ProfileTaken,
    ProfileWanted,
    ProfilePage,
    HeldProfilesWanted,
    HeldProfiles,
)
