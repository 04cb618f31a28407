"""Progress is for terminals."""

from __future__ import annotations

import pytest

from spark import progress


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("terminal")
def test_the_bar_tells_how_many_are_finished(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar("cells", lambda: 3, 5):
        pass
    shown = capsys.readouterr()
    assert "3/5" in shown.err
    assert shown.out == ""


@pytest.mark.usefixtures("terminal")
def test_the_spinner_tells_what_is_under_way(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.spinner("analysing data"):
        pass
    assert "analysing data" in capsys.readouterr().err


def test_a_pipe_gets_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    with progress.bar("cells", lambda: 3, 5), progress.spinner("analysing data"):
        pass
    assert capsys.readouterr() == ("", "")
