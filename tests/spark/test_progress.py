"""Progress is for terminals."""

from __future__ import annotations

import pytest

from spark import progress


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("terminal")
def test_the_line_tells_the_news(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.line("sweep") as tell:
        tell("3 of 5 done")
    shown = capsys.readouterr()
    assert "3 of 5 done" in shown.err
    assert shown.out == ""


@pytest.mark.usefixtures("terminal")
def test_the_spinner_tells_what_is_under_way(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.spinner("analysing data"):
        pass
    assert "analysing data" in capsys.readouterr().err


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("pipe")
def test_a_pipe_gets_nothing_of_what_is_soon_over(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.line("sweep") as tell, progress.spinner("analysing data"):
        tell("3 of 5 done")
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("pipe")
def test_a_pipe_gets_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 15.0, 31.0, 32.0])
    monkeypatch.setattr("spark.progress.time.monotonic", lambda: next(clock))
    with progress.line("sweep") as tell:
        for done in (1, 2, 3):
            tell(f"{done} of 5 done")
    assert capsys.readouterr() == ("", "2 of 5 done\n")
