"""What a broker keeps between two lives, and who may not live in its directory."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ges.broker.data_directory import Life, begin_life
from overlay.errors import ConfigError

UID = "00112233445566778899aabbccddeeff"


@contextmanager
def life(directory: Path | None, uid: str | None = None) -> Iterator[Life]:
    """One life of a broker, from its start to the end of its process."""
    home = begin_life(directory, certified_uid=uid)
    try:
        yield home
    finally:
        if home.lock is not None:
            home.lock.close()


def refused(directory: Path, uid: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        begin_life(directory, certified_uid=uid)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def at(monkeypatch: pytest.MonkeyPatch, unix_time: float) -> None:
    monkeypatch.setattr(time, "time", lambda: unix_time)


def test_the_uid_stays_and_the_incarnation_grows(tmp_path: Path) -> None:
    with life(tmp_path / "new" / "data") as first:
        pass
    with life(tmp_path / "new" / "data") as second:
        pass
    assert first.uid == second.uid
    assert second.incarnation > first.incarnation


@pytest.mark.parametrize("later", [0, 1, 5000], ids=["at once", "a second later", "later"])
def test_incarnations_follow_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    at(monkeypatch, 1000.5)
    with life(tmp_path) as first:
        assert first.incarnation == 1000
    at(monkeypatch, 1000.5 + later)
    with life(tmp_path) as second:
        assert second.incarnation == max(1001, 1000 + later)


def test_a_clock_that_goes_back_does_not_take_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 5000)
    with life(tmp_path):
        pass
    at(monkeypatch, 10)
    for expected in (5001, 5002):
        with life(tmp_path) as home:
            assert home.incarnation == expected


def test_the_incarnation_is_on_disk_before_it_is_used(tmp_path: Path) -> None:
    with life(tmp_path) as home:
        assert json.loads((tmp_path / "broker.json").read_text()) == {
            "uid": home.uid,
            "incarnation": home.incarnation,
        }
        assert (tmp_path / "broker.json").stat().st_mode & 0o022 == 0


def test_without_a_directory_each_life_is_a_new_broker() -> None:
    with life(None) as first, life(None) as second:
        assert first.uid != second.uid
        assert first.incarnation > 1_600_000_000


def test_an_identity_gives_the_uid(tmp_path: Path) -> None:
    with life(tmp_path, UID) as home:
        assert home.uid == UID
    with life(None, UID) as homeless:
        assert homeless.uid == UID


def test_two_brokers_cannot_live_in_one_directory(tmp_path: Path) -> None:
    with life(tmp_path):
        assert "another broker is using it" in refused(tmp_path)
    with life(tmp_path):
        pass


def test_a_refused_broker_changes_nothing(tmp_path: Path) -> None:
    with life(tmp_path):
        before = (tmp_path / "broker.json").read_bytes()
        refused(tmp_path)
        assert (tmp_path / "broker.json").read_bytes() == before


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    assert "mine: there is a file of that name; name another" in refused(tmp_path / "mine")


def test_the_directory_of_another_identity(tmp_path: Path) -> None:
    with life(tmp_path) as home:
        pass
    text = refused(tmp_path, UID)
    assert home.uid in text
    assert UID in text
    assert "use the data directory that goes with the identity" in text
    with life(tmp_path):
        pass


# ── others may have been there ────────────────────────────────────────────────────────────────


def test_a_lock_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    valuable, data = tmp_path / "valuable", tmp_path / "data"
    valuable.write_text("do not touch")
    data.mkdir()
    (data / "lock").symlink_to(valuable)
    assert "data: lock is a symbolic link; name another" in refused(data)
    (data / "lock").unlink()
    (data / "lock").symlink_to(tmp_path / "not there")
    assert "lock is a symbolic link" in refused(data)
    assert not (tmp_path / "not there").exists()
    assert valuable.read_text() == "do not touch"


def test_a_lock_that_is_a_pipe_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    assert "lock is no regular file" in refused(tmp_path)


def test_the_lock_is_its_owners_and_is_not_emptied(tmp_path: Path) -> None:
    with life(tmp_path):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    (tmp_path / "lock").write_text("of an earlier version")
    (tmp_path / "lock").chmod(0o644)
    with life(tmp_path):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "lock").read_text() == "of an earlier version"


def test_the_file_that_is_written_anew_is_not_written_through_a_link(tmp_path: Path) -> None:
    valuable, data = tmp_path / "valuable", tmp_path / "data"
    valuable.write_text("do not touch")
    data.mkdir()
    (data / ".broker.json.new").symlink_to(valuable)
    with life(data) as home:
        assert json.loads((data / "broker.json").read_text())["uid"] == home.uid
    assert not (data / "broker.json").is_symlink()
    assert valuable.read_text() == "do not touch"


def test_a_pipe_in_place_of_the_file_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "broker.json")
    assert "Not a regular file" in refused(tmp_path)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_that_others_may_write_is_warned_of(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with capture_logs() as lines, life(tmp_path):
        pass
    (line,) = lines
    assert line["event"] == "others may change the data directory"
    assert f"chmod {mode & ~0o022:o} {tmp_path}" in line["why"]
    tmp_path.chmod(0o755)
    with capture_logs() as lines, life(tmp_path):
        pass
    assert lines == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"uid": "x", "incarnation": 1}',
        b'{"incarnation": 1}',
        b'{"uid": "%s", "incarnation": "1"}' % UID.encode(),
        b'{"uid": "%s", "incarnation": -1}' % UID.encode(),
        b'{"uid": "%s", "incarnation": 9223372036854775807}' % UID.encode(),
        b'{"uid": "%s", "incarnation": 1, "more": 2}' % UID.encode(),
        b"\xff\xfe",
    ],
)
def test_a_damaged_file_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broker.json").write_bytes(content)
    text = refused(tmp_path)
    assert str(tmp_path / "broker.json") in text
    assert "remove it to start as a new broker" in text
    assert (tmp_path / "broker.json").read_bytes() == content
    (tmp_path / "broker.json").unlink()
    with life(tmp_path):
        pass


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refused(tmp_path / "file")
    assert "Not a directory" in refused(tmp_path / "file" / "below")
