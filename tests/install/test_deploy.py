"""The files in ``deploy/``: what they name exists, and what they start is a command that works."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.stage.in_process import chordal_here
from ges.http.settings import DEFAULT_PORT
from ges.settings.gathering import TABLE
from tests.install.conftest import PACKAGES, ROOT, run

DEPLOY = ROOT / "deploy"
TOKEN = "correct-horse-battery-staple"
MOST_EXPOSED = 15  #: tenths of what ``systemd-analyze security`` says, of 100


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    return found


def brokers() -> dict[str, dict[str, Any]]:
    """The services that run a broker."""
    return {n: s for n, s in compose()["services"].items() if s["image"] == "chordal"}


def checked(arguments: list[str], folder: Path) -> None:
    """Have the command check a command line of ``serve``, with paths that exist here."""
    token = folder / "admin.token"
    token.touch(0o600)
    token.write_text(TOKEN)
    here = {
        "--data": folder / "data",
        "--admin-token-file": token,
        "--config": folder / "chordal.toml",
    }
    (folder / "chordal.toml").write_text('name = "here"\n')
    assert arguments[0] == "serve"
    given: list[str] = []
    for word in arguments[1:]:
        flag, equals, _ = word.partition("=")
        if given and given[-1] in here:
            word = str(here[given[-1]])
        elif equals and flag in here:
            word = f"{flag}={here[flag]}"
        given.append(word)
    done = chordal_here("serve", "--check", *given)
    assert (done.returncode, done.stdout) == (0, "the settings are in order\n"), done.stderr


# ── the image ──────────────────────────────────────────────────────────────────────────────────


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_is_built_as_the_linter_wants_it() -> None:
    run(Path(sys.executable).parent / "hadolint", DEPLOY / "Dockerfile")


def test_the_image_has_all_packages_and_nothing_is_copied_that_is_not_there() -> None:
    copied = [
        name
        for word, rest in instructions()
        if word == "COPY" and "--from" not in rest
        for name in rest.split()[:-1]
    ]
    assert set(PACKAGES) <= set(copied)
    assert all((ROOT / name).exists() for name in copied)
    let_in = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in let_in if line.startswith("!")} == set(copied)


def test_the_image_runs_a_command_that_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    told = dict(instructions())
    assert json.loads(told["ENTRYPOINT"]) == ["chordal"]
    command = json.loads(told["CMD"])
    variables = dict(re.findall(r"\b(CHORDAL_[A-Z]+)=(\S+)", told["ENV"]))
    names = {each.about.env for each in TABLE}
    assert set(variables) <= names
    assert variables["CHORDAL_DATA"] == told["VOLUME"]
    monkeypatch.setenv("CHORDAL_LISTEN", variables["CHORDAL_LISTEN"])
    without = chordal_here(*command, "--check")
    assert "--advertise" in without.stderr
    monkeypatch.setenv("CHORDAL_ADVERTISE", "broker.example.org")
    assert chordal_here(*command, "--check").returncode == 0
    assert told["STOPSIGNAL"] == "SIGTERM"
    extras = re.findall(r"'\.\[([a-z,]+)\]'", (DEPLOY / "Dockerfile").read_text())
    assert extras == ["admin,discovery"]


# ── five brokers, Prometheus and Grafana ──────────────────────────────────────────────────────


def test_the_compose_file_is_one() -> None:
    run(
        *(Path(sys.executable).parent / "check-jsonschema", "--builtin-schema"),
        *("vendor.compose-spec", DEPLOY / "compose.yml"),
    )


def test_every_broker_of_the_compose_file_starts_as_the_command_allows(tmp_path: Path) -> None:
    services = brokers()
    assert len(services) == 5
    for name, service in services.items():
        words: list[str] = [*service["entrypoint"], *service["command"]]
        arguments = words[1:]
        assert words[0] == "chordal"
        assert f"--name={name}" in arguments
        assert f"--advertise={name}" in arguments
        folder = tmp_path / name
        folder.mkdir()
        checked(arguments, folder)


def test_the_brokers_of_the_compose_file_meet_each_other() -> None:
    services = brokers()
    for service in services.values():
        [listed] = [word for word in service["entrypoint"] if word.startswith("--join=")]
        joined = listed.removeprefix("--join=").split(",")
        assert set(joined) <= {f"chordal://{name}:9470" for name in services}
        [bootstrap] = [word for word in service["entrypoint"] if word.startswith("--bootstrap=")]
        assert int(bootstrap.partition("=")[2]) <= len(joined)


def test_every_file_that_the_compose_file_names_is_there() -> None:
    whole = compose()
    named = [Path(service["build"]["dockerfile"]) for service in brokers().values()]
    assert all((ROOT / path).is_file() for path in named)
    for service in whole["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source
            else:
                assert source in whole["volumes"]
        for secret in service.get("secrets", ()):
            assert secret["source"] in whole["secrets"]


def test_prometheus_reads_every_broker_with_the_token_that_they_want() -> None:
    whole = compose()
    config = yaml.safe_load((DEPLOY / "compose/prometheus.yml").read_text())
    [job] = config["scrape_configs"]
    [static] = job["static_configs"]
    assert static["targets"] == [f"{name}:{DEFAULT_PORT}" for name in brokers()]
    [secret] = whole["services"]["prometheus"]["secrets"]
    path = job["authorization"]["credentials_file"]
    assert path == f"/run/secrets/{secret['target']}"
    for service in brokers().values():
        assert f"--admin-token-file={path}" in service["entrypoint"]
        assert f"--admin=0.0.0.0:{DEFAULT_PORT}" in service["entrypoint"]


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    whole, folder = compose(), DEPLOY / "grafana" / "provisioning"
    [source] = yaml.safe_load((folder / "datasources/prometheus.yml").read_text())["datasources"]
    assert source["url"].removeprefix("http://").partition(":")[0] in whole["services"]
    [provider] = yaml.safe_load((folder / "dashboards/chordal.yml").read_text())["providers"]
    mounted = [v.split(":")[1] for v in whole["services"]["grafana"]["volumes"]]
    assert any(Path(path).parent == Path(provider["options"]["path"]) for path in mounted)


# ── systemd ────────────────────────────────────────────────────────────────────────────────────


def unit() -> dict[str, list[str]]:
    """The settings of the unit, by name."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "chordal.service").read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_starts_the_command_as_it_allows(tmp_path: Path) -> None:
    [started] = unit()["ExecStart"]
    words = shlex.split(started)
    assert words[0].endswith("/chordal")
    checked(words[1:], tmp_path)
    [before] = unit()["ExecStartPre"]
    assert before == f"{words[0]} serve --check --config /etc/chordal/chordal.toml"


def test_the_unit_leaves_a_broker_time_to_drain_and_no_time_to_wrong_settings() -> None:
    settings = unit()
    grace = json.loads(chordal_here("config", "show", "--json").stdout)["grace"]["value"]
    assert int(settings["TimeoutStopSec"][0]) >= int(grace.removesuffix("s")) + 10
    wrong = chordal_here("serve", "--listen", "nowhere:nothing")
    assert settings["RestartPreventExitStatus"] == [str(wrong.returncode)]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_unit_and_finds_it_little_exposed(tmp_path: Path) -> None:
    copy = tmp_path / "chordal.service"
    text = (DEPLOY / "chordal.service").read_text()
    copy.write_text(text.replace("/opt/chordal/bin/chordal", sys.executable))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    security = ("security", "--offline=true", f"--threshold={MOST_EXPOSED}")
    run("systemd-analyze", *security, copy)
