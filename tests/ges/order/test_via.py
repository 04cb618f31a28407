"""Digests of ways."""

from __future__ import annotations

import random

import pytest

from ges.order import via
from ges.order.via import Tokens, mix
from ges.wire.events import Flow
from overlay.ids import LinkClass

FLOW: Flow = (b"p" * 16, 1, LinkClass.NORMAL)


def test_the_order_of_streams_matters() -> None:
    rng = random.Random(1)
    for _ in range(1000):
        start, a, b = (rng.getrandbits(32) for _ in range(3))
        assert mix(mix(start, a), b) != mix(mix(start, b), a)
        assert 0 <= mix(start, a) < 2**32


def test_different_tokens_make_different_ways() -> None:
    """A mix loses nothing: it is one to one in the token."""
    rng = random.Random(2)
    start = rng.getrandbits(32)
    assert len({mix(start, token) for token in range(50_000)}) == 50_000


def test_a_stream_keeps_its_token_until_it_is_renewed() -> None:
    tokens = Tokens[str](random.Random(3))
    first, other = tokens.onto(0, "a"), tokens.onto(0, "b")
    assert tokens.onto(0, "a") == first != other
    tokens.renew(["a"])
    second = tokens.onto(0, "a")
    assert second != first
    assert tokens.onto(0, "b") == other
    assert tokens.renewed == 1


def test_streams_that_have_tokens_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ways come and go; a token that is forgotten is as good as renewed."""
    monkeypatch.setattr(via, "MAX_STREAMS", 2)
    tokens = Tokens[str](random.Random(3))
    first = tokens.onto(0, "a")
    for name in ("b", "c"):
        tokens.onto(0, name)
    assert len(tokens._of) <= 2
    assert tokens.onto(0, "a") != first


def test_a_flow_starts_anew_when_its_publisher_attaches(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens[str](random.Random(4))
    first = tokens.start(FLOW)
    assert tokens.start(FLOW) == first
    assert tokens.attach(FLOW) != first
    monkeypatch.setattr(via, "MAX_FLOWS", 2)
    for at in range(3):
        tokens.start((bytes([at]) * 16, 1, LinkClass.NORMAL))
    tokens.start(FLOW)
    assert len(tokens._starts) == 2
