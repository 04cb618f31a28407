"""How two ends of a fresh connection agree to be a link.

The caller sends :class:`Hello`, the other end answers :class:`Welcome` or :class:`Refusal`. Two
brokers often call each other at the same moment; :class:`LinkTable` decides which connection stays,
such that both ends decide alike:

* of two crossing calls, that of the smaller uid wins;
* a call from a broker to which there is a link already means that it has lost that link, unless the
  call began before that link was made. Each broker numbers its calls and welcomes, as they begin,
  with a *serial* that is sent in both greetings and tells the two cases apart. For the same
  reason a greeting that somebody repeats does not put an end to the link it once made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from overlay.address import is_own_url
from overlay.errors import ConfigError
from overlay.ids import LinkClass, Peer, WireCount, WireSecret, WireText, WireUid
from overlay.machine import Closed, Message, Refused
from overlay.wire.codec import MessageCodec
from overlay.wire.frames import LOWEST_VERSION
from overlay.wire.versions import (
    DIALECT,
    Agreement,
    Dialect,
    WireCapabilities,
    WireVersion,
    describe_range,
)

MAX_OVERLAY_NAME = 64
MAX_TOKEN = 128
MAX_TOKEN_NAME = 64
MAX_NAME = 64  #: of a broker, for people

NO_URL = "the greeting gives no URL that a broker can be called at"

#: A broker's name for people; others have told it, so it is escaped where it is printed.
WireName = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
WireNonce = Annotated[bytes, msgspec.Meta(min_length=16, max_length=64)]
Overlay = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_OVERLAY_NAME)]


class Hello(Message, frozen=True):
    """The caller's greeting. A client has no address, so it is no peer."""

    overlay: Overlay
    version: WireVersion  #: the highest that the caller speaks
    uid: WireUid
    incarnation: WireCount
    peer: Peer | None  #: None: a client calls
    link_class: LinkClass
    expected: WireUid | None  #: who the caller believes to be here
    serial: WireCount
    lowest: WireVersion | None = None  #: version that the caller speaks; None: the highest alone
    capabilities: WireCapabilities = ()
    token: Annotated[str, msgspec.Meta(max_length=MAX_TOKEN)] | None = None  #: a client's, secret
    secret: WireSecret | None = None  #: a client's without certificate: its uid is the hash of it
    #: of a client's token, which it can prove that it has; then ``token`` is None
    token_name: Annotated[str, msgspec.Meta(max_length=MAX_TOKEN_NAME)] | None = None
    nonce: WireNonce | None = None  #: goes into that proof
    name: WireName = ""  #: a broker's, for people; empty: it has none
    only_looks: bool = False  #: a client asks for the broker's status and nothing else, and goes

    def __repr__(self) -> str:
        """Leave token and secret out: what is printed may be kept."""
        return f"Hello(uid={self.uid!r}, link_class={self.link_class.value!r})"


class Challenge(Message, frozen=True):
    """To a client that has named a token: prove that you have it."""

    broker: WireUid
    nonce: WireNonce


class TokenProof(Message, frozen=True):
    """The answer to that; see :mod:`ges.access.token_proof`."""

    proof: Annotated[bytes, msgspec.Meta(max_length=64)]


class Welcome(Message, frozen=True):
    """The link is made."""

    peer: Peer
    serial: WireCount
    version: WireVersion = LOWEST_VERSION  #: that holds for this link
    capabilities: WireCapabilities = ()  #: of the broker called
    name: WireName = ""  #: of that broker, for people; empty: it has none


class Refusal(Message, frozen=True):
    """No link; the connection is closed after this."""

    reason: Refused
    detail: WireText


class Goodbye(Message, frozen=True):
    """The last message on a link, but for acknowledgements."""

    reason: Closed


#: What may be said before a link exists; a stranger's first bytes are decoded by this alone.
GREETINGS = MessageCodec(Hello, Welcome, Refusal, TokenProof)


def check_overlay(name: str) -> str:
    """Return ``name`` if an overlay can be called so.

    Raises:
        ConfigError: it is empty or too long.
    """
    if not 0 < len(name) <= MAX_OVERLAY_NAME:
        raise ConfigError(
            f"the name of an overlay has 1 to {MAX_OVERLAY_NAME} characters, not {len(name)}"
        )
    return name


def judge_hello(
    hello: Hello, *, overlay: str, own_uid: str, dialect: Dialect = DIALECT
) -> Refusal | Agreement:
    """Return what holds for the link, or why there can be none whatever this broker's state."""
    if hello.overlay != overlay:
        return Refusal(
            Refused.OTHER_OVERLAY, f"this broker belongs to {overlay!r}, not {hello.overlay!r}"
        )
    agreement = dialect.agree(hello.lowest, hello.version, hello.capabilities)
    if agreement is None:
        return Refusal(
            Refused.OTHER_VERSION,
            f"this broker speaks protocol {describe_range(dialect.lowest, dialect.highest)}, "
            f"the caller {describe_range(hello.lowest, hello.version)}",
        )
    if hello.expected not in (None, own_uid):
        return Refusal(Refused.OTHER_PEER, "another broker listens here now")
    if hello.peer is not None and (hello.peer.uid, hello.peer.incarnation) != (
        hello.uid,
        hello.incarnation,
    ):
        return Refusal(Refused.NOT_CHORDAL, "the greeting contradicts itself")
    if hello.peer is not None and not is_own_url(hello.peer.url):
        return Refusal(Refused.NOT_CHORDAL, NO_URL)
    return agreement


@dataclass(slots=True)
class _Established:
    remote_serial: int  #: of the other end's greeting
    incarnation: int  #: of the other end: another life numbers anew
    ours: bool = False  #: this end called


class LinkTable:
    """Which links and calls exist at this end, by (uid, class). Decides; does no I/O."""

    def __init__(self, own_uid: str) -> None:
        self._own_uid = own_uid
        self._serial = 0
        self._calls = 0
        self._calling: dict[tuple[str, LinkClass], int] = {}  #: number of the call under way
        self._links: dict[tuple[str, LinkClass], _Established] = {}

    def next_serial(self) -> int:
        """Number the call or welcome that begins now."""
        self._serial += 1
        return self._serial

    def call(self, uid: str, link_class: LinkClass, *, replace: bool = False) -> int | None:
        """Begin to call ``uid``; None if there is a call already, or a link not to replace.

        Returns the number of the call. It is over when the other end's call has won; then another
        may begin while its own answer is still to come, and that answer means the first alone.
        """
        key = (uid, link_class)
        if (key in self._links and not replace) or key in self._calling:
            return None
        self._calls += 1
        self._calling[key] = self._calls
        return self._calls

    def call_ended(self, uid: str, link_class: LinkClass, call: int) -> None:
        """That call has led nowhere."""
        if self.is_calling(uid, link_class, call):
            del self._calling[uid, link_class]

    def is_calling(self, uid: str, link_class: LinkClass, call: int | None = None) -> bool:
        """Say whether a call is under way: that one, or any."""
        under_way = self._calling.get((uid, link_class))
        return under_way is not None and call in (None, under_way)

    def on_hello(self, uid: str, link_class: LinkClass, serial: int, incarnation: int = 0) -> bool:
        """Say whether a call from ``uid`` is to be welcomed (and replaces what there was)."""
        key = (uid, link_class)
        link = self._links.get(key)
        greeted = (incarnation, serial)
        if link is not None and greeted <= (link.incarnation, link.remote_serial):
            return False  # it began before the link was made, or it is a call made twice
        if key in self._calling and self._own_uid < uid:
            return False  # our call wins
        self._calling.pop(key, None)
        self._links[key] = _Established(serial, incarnation)
        return True

    def on_welcome(
        self,
        uid: str,
        link_class: LinkClass,
        serial: int,
        incarnation: int = 0,
        *,
        call: int | None,
    ) -> bool:
        """Say whether the answer to our call still makes a link.

        ``call`` is its number; None where we did not know whom we called.
        """
        key = (uid, link_class)
        link = self._links.get(key)
        is_under_way = call is not None and self.is_calling(uid, link_class, call)
        if link is not None and not link.ours and not is_under_way:
            return False  # their call has won meanwhile
        if is_under_way:
            del self._calling[key]
        self._links[key] = _Established(serial, incarnation, ours=True)
        return True

    def closed(self, uid: str, link_class: LinkClass) -> None:
        """The link is gone."""
        self._links.pop((uid, link_class), None)
