"""What a program chooses from a few, given as what it is or by its name; anything else is refused.

For example, ``link_class="secure"`` is ``LinkClass.SECURE``. A program need not check its
types, and what is not told from others here would be sent where it must not go.
"""

from __future__ import annotations

from typing import TypeVar

from ges.wire.client_messages import CLIENT_CODEC, Level
from overlay.errors import CodecError, ConfigError
from overlay.ids import LinkClass
from overlay.machine import Message
from overlay.wire.frames import HEADER

Q = TypeVar("Q", bound=Message)


def link_class_of(given: object) -> LinkClass:
    """Return the class that is given.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(given, LinkClass):
        return given
    try:
        if isinstance(given, str):
            return LinkClass(given)
    except ValueError:
        pass
    names = ", ".join(LinkClass)
    raise ConfigError(f"link_class {given!r}: give a LinkClass, or write one of {names}")


def level_of(given: object) -> Level:
    """Return the level that is given.

    Raises:
        ConfigError: it is none.
    """
    names = {level.name.lower().replace("_", "-"): level for level in Level}
    if isinstance(given, str) and given in names:
        return names[given]
    try:
        if isinstance(given, int) and not isinstance(given, bool):
            return Level(given)
    except ValueError:
        pass
    raise ConfigError(f"level {given!r}: give a Level, or write one of {', '.join(names)}")


def checked_question(question: Q) -> Q:
    """Return a question that a broker can read: one that cannot ends the connection.

    Raises:
        ConfigError: a field of it is none; the text names it.
    """
    try:
        CLIENT_CODEC.decode(CLIENT_CODEC.encode(question)[HEADER.size :])
    except (CodecError, TypeError, OverflowError) as error:
        raise ConfigError(f"{type(question).__name__}: {error}") from None
    return question
