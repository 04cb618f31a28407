"""Timing profiles."""

from __future__ import annotations

import pytest

from overlay.errors import ConfigError
from ring.config import PROFILES, profile


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
