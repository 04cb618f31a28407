"""Files that the user names: read if they are regular ones of a sane size, and refused if not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from overlay.security.regular_file import read_regular


def test_a_file_is_read_whole_and_its_mode_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    path.chmod(0o640)
    data, mode = read_regular(path, 5)
    assert (data, stat.S_IMODE(mode)) == (b"12345", 0o640)


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 5)[0] == b"1"


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 2**40)  # no more than its size: it takes no room
    with pytest.raises(OSError, match=r"larger than 4 bytes.*file"):
        read_regular(path, 4)


def test_so_is_what_does_not_say_how_large_it_is() -> None:
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(Path("/proc/self/status"), 4)


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    other_end = os.open(pipe, os.O_RDWR)
    try:
        for path in (pipe, Path("/dev/null")):
            with pytest.raises(OSError, match=rf"Not a regular file.*{path}"):
                read_regular(path, 4)
    finally:
        os.close(other_end)
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        read_regular(tmp_path, 4)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none", 4)
