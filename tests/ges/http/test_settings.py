"""Where the admin server listens, and what keeps it from starting."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ges.http.settings import admin_settings
from overlay.errors import ConfigError

TOKEN = "0123456789abcdef"


def token_file(folder: Path, text: str = TOKEN, mode: int = 0o600) -> Path:
    path = folder / "admin.token"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("9471", "127.0.0.1", 9471),
        ("0", "127.0.0.1", 0),
        ("localhost:80", "localhost", 80),
        ("127.0.0.1", "127.0.0.1", 9471),
        ("[::1]:9000", "::1", 9000),
    ],
)
def test_loopback_needs_no_token(text: str, host: str, port: int) -> None:
    found = admin_settings(text, None)
    assert (found.host, found.port, found.token) == (host, port, None)


@pytest.mark.parametrize("text", ["0.0.0.0:9471", "[::]:9471", "10.0.0.1:9471", "broker.example"])
def test_beyond_loopback_it_does_not_start_without_a_token(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give --admin-token-file FILE or --admin-tls DIR"):
        admin_settings(text, None)
    found = admin_settings(text, token_file(tmp_path, f"{TOKEN}\n"))
    assert found.token == TOKEN
    assert TOKEN not in repr(found)


@pytest.mark.parametrize("text", ["", "x" * 15, "x" * 513, "with a blank inside", "a\x00" * 10])
def test_what_is_no_token_is_not_taken(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="make one with"):
        admin_settings("9471", token_file(tmp_path, text))


def test_a_token_that_others_can_read_is_not_taken(tmp_path: Path) -> None:
    path = token_file(tmp_path, mode=0o644)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        admin_settings("9471", path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere: No such file or directory; make one with"):
        admin_settings("9471", tmp_path / "nowhere")


def test_a_missing_library_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "h11" else found(name)
    )
    with pytest.raises(ConfigError, match=r"needs h11.*pip install 'chordal\[admin\]'"):
        admin_settings("9471", None)
