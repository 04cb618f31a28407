"""Names of clients, and events that are for the clients of some names alone.

For example, a client is attached under the name ``kitchen``, and ``chordal pub lamp on --to
kitchen,hall`` publishes an event on ``lamp``. It goes to the clients of these two names, wherever
they are attached, and to nobody else, whatever others have subscribed to.

A client takes a name by a subscription to ``$name/NAME``. Nothing can be published there. The names
that an event is for stand between its attributes and its payload; a flag says that they
do::

    u16 bytes       of all that follows here
    u8 bytes | name     for each, in ASCII
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

from overlay.errors import CodecError, ConfigError

MAX_NAME = 64  #: characters, which are bytes
MAX_NAMES = 64  #: that one event is for
ROOT = "$name"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}")
_SIZE = struct.Struct("!H")
MAX_NAMES_BYTES = _SIZE.size + MAX_NAMES * (1 + MAX_NAME)


def check_name(name: str) -> str:
    """Return the name of a client if it is one.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{name!r} is no name of a client: write 1 to {MAX_NAME} letters, digits and any of "
            "._:@-, a letter or digit first"
        )
    return name


def check_names(to: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names that an event is for, each once; one may be given as text.

    Raises:
        ConfigError: there are none, or too many, or one is no name.
    """
    names = tuple(
        dict.fromkeys(check_name(each) for each in ((to,) if isinstance(to, str) else to))
    )
    if not 0 < len(names) <= MAX_NAMES:
        raise ConfigError(f"an event is for 1 to {MAX_NAMES} named clients, not {len(names)}")
    return names


def name_filter(name: str) -> str:
    """Return what a client subscribes to that takes a name."""
    return f"{ROOT}/{name}"


def is_name_filter(text: str) -> bool:
    """Say whether a filter is about names."""
    return text == ROOT or text.startswith(f"{ROOT}/")


def name_in(text: str) -> str | None:
    """Return the name that a subscription to a filter takes; None: it takes none."""
    name = text.removeprefix(f"{ROOT}/")
    return name if name != text and _NAME.fullmatch(name) is not None else None


def pack_names(names: Iterable[str]) -> bytes:
    """Return checked names as they stand before a payload; nothing if there are none."""
    packed = b"".join(bytes((len(name),)) + name.encode() for name in names)
    return _SIZE.pack(len(packed)) + packed if packed else b""


def read_names(data: bytes, at: int, end: int) -> tuple[tuple[str, ...], int]:
    """Read the names that stand in ``data`` from ``at`` on; also say where the payload begins.

    Raises:
        CodecError: they make no sense.
    """
    if at + _SIZE.size > end:
        raise CodecError("event frame without the names that it is for")
    begin = at + _SIZE.size
    stop = begin + _SIZE.unpack_from(data, at)[0]
    names: list[str] = []
    while begin < stop <= end and len(names) < MAX_NAMES:
        size = data[begin]
        name = data[begin + 1 : begin + 1 + size].decode("ascii", "replace")
        if _NAME.fullmatch(name) is None:
            break
        names.append(name)
        begin += 1 + size
    if begin != stop or not names:
        raise CodecError("event frame whose names make no sense")
    return tuple(names), stop
