"""The wheel: what is in it, and that it works in an environment that had nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from benchmarks.stage.waiting import eventually
from overlay.net.free_ports import free_ports
from tests.helpers.http import fetch
from tests.install.conftest import PACKAGES, ROOT, Environment, build, run

END_SECONDS = 30.0


def in_checkout() -> set[str]:
    """Return the files that a wheel is to have."""
    return {
        path.relative_to(ROOT).as_posix()
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def in_wheel(wheel: Path) -> set[str]:
    """Return the files of a wheel that are installed as packages."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_a_wheel_has_every_module_and_every_file_that_they_read(
    source: Path, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, source)
    [wheel] = tmp_path.glob("*.whl")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert wheel.name == f"chordal-{version}-py3-none-any.whl"
    assert in_wheel(wheel) == in_checkout()


@pytest.mark.soak
def test_what_is_built_works_in_an_empty_environment(source: Path, tmp_path: Path) -> None:
    build(source, tmp_path / "dist")  # a source archive, and of that a wheel
    [archive] = (tmp_path / "dist").glob("*.tar.gz")
    [wheel] = (tmp_path / "dist").glob("*.whl")
    assert in_wheel(wheel) == in_checkout()
    assert archive.name.removesuffix(".tar.gz") == wheel.name.removesuffix("-py3-none-any.whl")

    there = Environment(tmp_path / "environment")
    there.install(wheel)
    version = wheel.name.split("-")[1]
    assert there.chordal("--version").stdout == f"chordal {version}\n"
    names = there.chordal("--help").stdout
    assert "serve" in names
    assert "recovery" in names  # what the packages above add
    for name in ("serve", "sim", "recovery"):
        assert there.chordal(name, "--help").stdout.startswith(f"Usage: chordal {name}")
    assert there.chordal("serve", "--check").stdout == "the settings are in order\n"
    assert "crash" in there.chordal("sim", "list").stdout  # the library of scenarios
    there.chordal("sim", "run", "crash", "--nodes", "8", "--seed", "1")

    there.install(f"{wheel}[admin]")
    serves(there)


def serves(there: Environment) -> None:
    """Start a broker with its admin server, publish an event, and look at the live page."""
    port, admin = free_ports(2)
    broker = subprocess.Popen(
        [
            *(there.folder / "bin" / "chordal", "serve", "--listen", f"127.0.0.1:{port}"),
            *("--admin", f"127.0.0.1:{admin}"),
        ],
        cwd=there.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert broker.stdout is not None
        ready = json.loads(broker.stdout.readline())
        assert ready["url"] == f"chordal://127.0.0.1:{port}"
        there.chordal("pub", "sensors/7", "21.5", "--broker", ready["url"])
        page = fetch(ready["admin_url"])
        assert page.status == 200
        assert "<title>" in page.text
        parts = {path.name for path in (ROOT / "ges" / "http" / "page").iterdir()}
        for name in parts - {"page.html"}:
            assert fetch(ready["admin_url"], f"/page/{name}").status == 200
        eventually(lambda: fetch(ready["admin_url"], "/readyz").status == 200)
        assert "chordal_on_ring" in fetch(ready["admin_url"], "/metrics").text
    finally:
        broker.terminate()
        broker.communicate(timeout=END_SECONDS)
    assert broker.returncode == 0
