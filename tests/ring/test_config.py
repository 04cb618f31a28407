"""Timing profiles."""

from __future__ import annotations

import re
from typing import Any

import pytest

from overlay.errors import ConfigError
from overlay.ids import nanos
from ring.config import PROFILES, RingConfig, profile


@pytest.mark.parametrize("name", PROFILES)
def test_what_is_measured_moves_the_waits_only_so_far(name: str) -> None:
    config = profile(name)
    assert config.heartbeat_ns + config.lateness_ns < config.silence_ns < config.silence_max_ns
    assert config.test_min_ns < config.test_ns < config.silence_max_ns


def test_wider_networks_wait_longer() -> None:
    silences = [profile(name).silence_ns for name in ("local", "lan", "wan")]
    assert silences == sorted(silences)


def test_an_unknown_profile_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'mars'.*local, lan, wan"):
        profile("mars")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"monitors": 3}, "3 monitors: there must be 1, 2 or 4"),
        ({"heartbeat_ns": 0}, "heartbeat_ns is 0, must be 1 or more"),
        ({"probes": 0}, "probes is 0"),
        ({"join_hops": -1}, "join_hops is -1, must be 0 or more"),
        ({"join_hops": 256}, "join_hops is 256, must be 255 or less"),
        ({"witnesses": 17}, "witnesses is 17, must be 16 or less"),
        ({"backup_rate": 0}, "backup_rate is 0"),
        ({"leave_ns": 7}, "leave_ns is 7, must be 8 or more"),
        ({"answer_ns": nanos(9)}, "answer_ns is 9000000000, above its longest: 400000000"),
        ({"gap_rule": "published"}, "'published' is no GapRule; there are widest, published"),
        ({"chords": "all"}, "'all' is no ChordStrategy; there are rank, harmonic, uniform, none"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        RingConfig(**setting)
