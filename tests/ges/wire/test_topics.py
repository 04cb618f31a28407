"""Topics and filters: what is refused, and why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ges.errors import TopicError
from ges.wire.topics import MAX_LEVELS, MAX_TOPIC_BYTES, check_filter, check_topic
from overlay.errors import ConfigError


@pytest.mark.parametrize("level", ["*", "**", ">"])
def test_wildcards_of_other_systems_are_named_with_their_translation(level: str) -> None:
    with pytest.raises(TopicError, match=r"write '[+#]' instead of") as caught:
        check_filter(f"a/{level}")
    assert repr(level) in str(caught.value)


@pytest.mark.parametrize("text", ["a/#/b", "#/a", "a+", "a/b#", "+a/b", "##"])
def test_a_wildcard_in_a_wrong_place(text: str) -> None:
    with pytest.raises(TopicError, match="as in a/"):
        check_filter(text)


@pytest.mark.parametrize("topic", ["+", "a/+", "a/#", "a#"])
def test_topics_have_no_wildcards(topic: str) -> None:
    with pytest.raises(TopicError, match="wildcards belong into filters"):
        check_topic(topic)


@pytest.mark.parametrize("check", [check_topic, check_filter])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("a" * (MAX_TOPIC_BYTES + 1), "1025 bytes, 1024 are allowed"),
        ("ä" * 513, "1026 bytes"),
        ("/" * MAX_LEVELS, "more than 64 levels"),
        ("a\0b", r"'a\\x00b' has a control character"),
        ("a\nb", r"'a\\nb' has a control character"),
        ("a/\x1b[2J", r"control character"),
        ("\x7f", "control character"),
        ("\x9b2J", "control character"),
        ("a\ud800", "is not text"),
    ],
)
def test_what_can_be_neither(check: Callable[[str], str], text: str, reason: str) -> None:
    with pytest.raises(TopicError, match=reason) as caught:
        check(text)
    assert isinstance(caught.value, ConfigError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("check", [check_topic, check_filter])
@pytest.mark.parametrize("text", ["a" * MAX_TOPIC_BYTES, "/" * (MAX_LEVELS - 1), "/", "ä/ö"])
def test_what_is_just_allowed(check: Callable[[str], str], text: str) -> None:
    assert check(text) == text
