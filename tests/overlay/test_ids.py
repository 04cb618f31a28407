"""Uids, units, and the bounds of what stands in a wire message."""

from __future__ import annotations

import msgspec
import pytest

from overlay.errors import ConfigError
from overlay.ids import (
    NANOS_PER_SECOND,
    Peer,
    WireCount,
    WireUid,
    WireUrl,
    nanos,
    parse_uid,
    short,
    uid_of,
)

UID = "00112233445566778899aabbccddeeff"


def test_a_uid_is_32_lower_case_hexadecimal_digits() -> None:
    assert parse_uid(UID) == UID
    assert short(UID) == "00112233"


@pytest.mark.parametrize("text", ["", UID[:-1], UID + "0", UID.upper(), UID + "\n", "x" * 32])
def test_another_uid_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_uid(text)
    assert repr(text) in str(caught.value)
    assert "32 lower-case hexadecimal digits" in str(caught.value)


def test_the_uid_of_a_secret_is_the_same_in_every_version() -> None:
    assert uid_of(bytes(range(32))) == "7bd684ce43b2e5eb95a598f541194067"


def test_seconds_become_whole_nanoseconds() -> None:
    assert nanos(1.5) == 3 * NANOS_PER_SECOND // 2
    assert nanos(30e-6) == 30_000
    assert isinstance(nanos(0.1), int)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (WireUid, UID.upper()),
        (WireUid, UID + "\n"),
        (WireUid, UID[:-1]),
        (WireUrl, ""),
        (WireUrl, "u" * 301),
        (WireCount, -1),
        (WireCount, 2**63),
        (WireCount, True),
    ],
)
def test_what_is_out_of_bounds_is_not_decoded(kind: object, value: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, type=kind)


def test_peers_of_one_uid_differ_by_incarnation() -> None:
    first = Peer(UID, 1, "chordal://a:1")
    assert first == Peer(UID, 1, "chordal://a:1")
    assert first != msgspec.structs.replace(first, incarnation=2)
    assert not first.secure
