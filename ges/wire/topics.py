"""Topics and filters as text, as MQTT users know them: what is one, and what is refused.

A topic is levels joined by ``/``. In a filter ``+`` stands for one level and ``#``, as the last
level, for any number of them, none included. Topics whose first level starts with ``$`` are the
system's: no wildcard in first place matches them. Neither a topic nor a filter has control
characters in it, such as a line feed. :mod:`ges.matching` finds what matches.
"""

from __future__ import annotations

import re

from ges.errors import TopicError
from overlay.errors import ConfigError

MAX_TOPIC_BYTES = 1024
MAX_LEVELS = 64
MAX_QUEUE_NAME = 64
MAX_KNOWN_TOPICS = 16384

#: C0, DEL and C1: whoever prints a topic must be sure that it does nothing to the terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

ONE = "+"
REST = "#"

#: Wildcards of other systems, and what to write instead.
_FOREIGN = {"*": ONE, "**": REST, ">": REST}


def check_topic(topic: str) -> str:
    """Return ``topic`` if events can be published to it.

    Raises:
        TopicError: it is empty, too long, or has a wildcard or a control character in it.
    """
    _check_shape(topic, "topic")
    if ONE in topic or REST in topic:
        raise TopicError(f"topic {topic!r} has a wildcard; wildcards belong into filters")
    return topic


def check_filter(text: str) -> str:
    """Return ``text`` if it is a filter.

    Raises:
        TopicError: it is empty, too long, or has a control character in it, or a wildcard that does
            not stand alone in its level.
    """
    _check_shape(text, "filter")
    levels = text.split("/")
    for at, level in enumerate(levels):
        if level in _FOREIGN:
            raise TopicError(f"filter {text!r}: write {_FOREIGN[level]!r} instead of {level!r}")
        if (ONE in level or REST in level) and len(level) > 1:
            raise TopicError(f"filter {text!r}: a wildcard stands for a whole level, as in a/+/c")
        if level == REST and at != len(levels) - 1:
            raise TopicError(f"filter {text!r}: '#' can only be the last level, as in a/#")
    return text


def check_queue(name: str) -> str:
    """Return ``name`` if a queue group can have it.

    Raises:
        ConfigError: it is empty, too long, or has characters in it that do not show.
    """
    if not isinstance(name, str):  # whoever calls from Python may not check types
        raise ConfigError(f"queue is {type(name).__name__}, not str")
    if not 0 < len(name) <= MAX_QUEUE_NAME or not name.isprintable():
        raise ConfigError(
            f"queue {name!r}: the name of a queue group has 1 to {MAX_QUEUE_NAME} characters "
            "that show"
        )
    return name


class KnownTopics:
    """Topics as they come over the wire; each is checked once, as most come again."""

    __slots__ = ("_good",)

    def __init__(self) -> None:
        self._good: set[bytes] = set()  #: bounded, as strangers name them

    def problem(self, topic: bytes) -> str | None:
        """Return why no event may have that topic, or None."""
        if topic in self._good:
            return None
        try:
            check_topic(topic.decode())
        except UnicodeDecodeError:
            return "the topic is not UTF-8"
        except TopicError as error:
            return str(error)
        if len(self._good) >= MAX_KNOWN_TOPICS:
            self._good.clear()
        self._good.add(topic)
        return None


def _check_shape(text: str, what: str) -> None:
    if not isinstance(text, str):  # whoever calls from Python may not check types
        raise TopicError(f"the {what} is {type(text).__name__}, not str")
    if not text:
        raise TopicError(f"the {what} is empty; write one such as sensors/7/temperature")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise TopicError(f"{what} {text!r} is not text") from error
    if size > MAX_TOPIC_BYTES:
        raise TopicError(f"the {what} has {size} bytes, {MAX_TOPIC_BYTES} are allowed")
    if text.count("/") >= MAX_LEVELS:
        raise TopicError(f"the {what} has more than {MAX_LEVELS} levels")
    if _CONTROL.search(text):
        raise TopicError(f"{what} {text!r} has a control character in it")
