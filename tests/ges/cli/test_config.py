"""``chordal config show`` and ``chordal serve --check``."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated

import click
import pytest

from benchmarks.stage.in_process import chordal_here
from ges.cli.setting_options import option
from ges.settings.gathering import TABLE, Sources, gather
from ges.settings.reference import renewed, to_copy
from ges.settings.setting import Part, setting, settings_of
from ges.settings.values import from_text, wanted
from overlay.authority.authority import Authority, create_authority, issue_identity
from overlay.security.identity import Role
from tests.ges.conftest import DAY, Issue

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "deploy" / "chordal.toml"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of whoever runs the tests counts."""
    for name in ("CHORDAL_CONFIG", *(each.about.env for each in TABLE)):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chordal.toml"
    path.write_text('name = "berlin-1"\n[limits]\nclients = 7\n')
    return path


def test_every_setting_is_shown_with_its_value_and_whence_it_came(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHORDAL_LOG", "debug")
    done = chordal_here("config", "show", "--config", str(file), "--backups", "3")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    rows = {line.split()[0]: line for line in lines[::2]}
    assert {each.key for each in TABLE} <= set(rows)
    assert rows["name"].split()[1:3] == ["berlin-1", f"{file}:1"]
    assert rows["limits.clients"].split()[1:3] == ["7", f"{file}:3"]
    assert rows["log.level"].split()[1:3] == ["debug", "CHORDAL_LOG"]
    assert rows["ring.backups"].split()[1:3] == ["3", "--backups"]
    assert rows["limits.links"].split()[1:3] == ["1024", "default"]
    assert lines[lines.index(rows["limits.links"]) + 1] == "    Links to other brokers."


def test_the_same_for_machines(file: Path) -> None:
    done = chordal_here("config", "show", "--config", str(file), "--json")
    found = json.loads(done.stdout)
    assert list(found) == [each.key for each in TABLE]
    assert found["limits.clients"] == {
        "value": 7,
        "source": "file",
        "from": f"{file}:3",
        "about": "Clients served at a time.",
        "flag": "--max-clients",
        "variable": "CHORDAL_MAX_CLIENTS",
        "reloads": True,
    }
    assert found["express.range"]["value"] == "5ms"
    assert found["join"]["value"] == []


def test_the_file_may_be_named_by_a_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORDAL_CONFIG", str(file))
    assert json.loads(chordal_here("config", "show", "--json").stdout)["name"]["value"] == (
        "berlin-1"
    )


def test_the_file_that_is_printed_says_the_same(file: Path, tmp_path: Path) -> None:
    flags = ("--join", "chordal://a:1,chordal://b:2", "--express-range", "1.5s", "--data", "d")
    printed = chordal_here("config", "show", "--config", str(file), "--toml", *flags).stdout
    copy = tmp_path / "copy.toml"
    copy.write_text(printed)
    before = chordal_here("config", "show", "--config", str(file), "--json", *flags)
    after = chordal_here("config", "show", "--config", str(copy), "--json")
    values = [
        {key: row["value"] for key, row in json.loads(o.stdout).items()} for o in (before, after)
    ]
    values[0]["data"] = str(Path("d").absolute())
    assert values[0] == values[1]


def test_defaults_in_it_may_be_uncommented(tmp_path: Path) -> None:
    lines = chordal_here("config", "show", "--toml").stdout.splitlines()
    bare = [
        line.removeprefix("#") if line.startswith("#") and line[1:2] != " " else line
        for line in lines
    ]
    tables = tomllib.loads("\n".join(bare))
    assert tables["limits"]["payload"] == "1MiB"
    have_no_default = {
        "name",
        "advertise",
        "announce",
        "unit",
        "data",
        "trace",
        "identity",
        "access",
        "tokens",
    }
    have_no_default |= {"token_file", "tls"}
    copy = tmp_path / "copy.toml"
    kept = [line for line in bare if line.split(" ")[0] not in have_no_default]
    copy.write_text("\n".join(line for line in kept if "[HOST:]PORT" not in line))
    assert gather(Sources(copy)).settings == gather(Sources()).settings
    assert {each.place for each in gather(Sources(copy)).found.values()} > {"default"}


def test_two_formats_are_one_too_many() -> None:
    done = chordal_here("config", "show", "--toml", "--json")
    assert (done.returncode, "choose one" in done.stderr) == (2, True)


def test_a_mistake_in_the_file_is_one_line(file: Path) -> None:
    file.write_text("[limits]\nclints = 3")
    for command in (("config", "show"), ("serve", "--listen", "0")):
        done = chordal_here(*command, "--config", str(file))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"chordal: error: {file}:2: limits.clints: unknown key; the nearest is limits.clients "
            "[settings]\n"
        )


# ── the check ─────────────────────────────────────────────────────────────────────────────────


def check(*arguments: str) -> tuple[int, list[str]]:
    done = chordal_here("serve", "--check", *arguments)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()


def test_settings_in_order(file: Path, issue: Issue, tmp_path: Path) -> None:
    identity = issue(Role.BROKER)
    done = chordal_here(
        *("serve", "--check", "--config", str(file), "--identity", str(identity)),
        *("--data", str(tmp_path / "new" / "data")),
    )
    assert (done.returncode, done.stdout) == (0, "the settings are in order\n"), done.stderr
    assert not (tmp_path / "new").exists(), "a check that leaves something behind"


def test_the_check_names_all_that_is_wrong(issue: Issue, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[[allow")
    client = issue(Role.CLIENT)
    code, told = check(
        *("--identity", str(client), "--access", str(wrong), "--tokens", str(tmp_path / "none")),
        *("--listen", "0.0.0.0:9470", "--bootstrap", "3", "--data", str(wrong / "data")),
    )
    assert code == 1
    for words in (
        f"{client} is a client's identity",
        f"{wrong}: no TOML",
        f"{tmp_path / 'none'}: No such file",
        "--listen 0.0.0.0 is every address of this machine",
        "--bootstrap 3 waits for brokers of a list",
        f"{wrong / 'data'}: {wrong} is a file; name a folder",
    ):
        assert any(words in line for line in told), (words, told)
    assert all(line.startswith("chordal: error: ") for line in told)


def test_the_check_names_a_broken_file_and_an_identity_that_has_ended(
    file: Path, tmp_path: Path
) -> None:
    file.write_text("listen = 'a b'\n[log]\nlevel = 1")
    code, told = check("--config", str(file))
    assert (code, len(told)) == (1, 2)
    assert told[0].startswith(f"chordal: error: {file}:1: listen: ")
    code, told = check("--identity", str(tmp_path / "nobody"))
    assert (code, len(told)) == (1, 1)
    assert str(tmp_path / "nobody") in told[0]


def test_an_identity_of_another_authority_s_key_is_no_identity(
    authority: Authority, tmp_path: Path
) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    issue_identity(authority, mine, role=Role.BROKER, lifetime=DAY)
    issue_identity(
        create_authority(tmp_path / "second", name="b", lifetime=DAY),
        other,
        role=Role.BROKER,
        lifetime=DAY,
    )
    (key,) = (path for path in mine.iterdir() if path.suffix == ".key")
    key.write_bytes((other / key.name).read_bytes())
    code, told = check("--identity", str(mine))
    assert (code, len(told)) == (1, 1)


def test_the_check_names_a_data_directory_of_another_broker(issue: Issue, tmp_path: Path) -> None:
    known = {"uid": "a" * 32, "incarnation": 1}
    (tmp_path / "broker.json").write_text(json.dumps(known))
    assert check("--data", str(tmp_path)) == (0, [])
    code, told = check("--data", str(tmp_path), "--identity", str(issue(Role.BROKER)))
    assert (code, len(told)) == (1, 1)
    assert f"belongs to broker {'a' * 32}, the identity to " in told[0]
    (tmp_path / "broker.json").write_text("{")
    assert "is damaged" in check("--data", str(tmp_path))[1][0]


class Switches(Part, frozen=True):
    """A table with a setting that is on or off."""

    lights: Annotated[bool, setting("Whether there is light.", "--lights")] = False


@pytest.mark.parametrize(
    ("arguments", "value"), [([], None), (["--lights"], True), (["--no-lights"], False)]
)
def test_a_setting_that_is_on_or_off_has_two_flags(
    arguments: list[str], value: bool | None
) -> None:
    (made,) = settings_of(Switches)
    command = click.Command("x", callback=lambda **options: options, params=[])
    option(made)(command)
    assert command.main(arguments, standalone_mode=False) == {"lights": value}
    assert (from_text(made, "true"), from_text(made, "0")) == (True, False)
    assert wanted(made) == "true or false"


# ── what is written from the structs ──────────────────────────────────────────────────────────


def test_the_page_is_what_the_structs_say() -> None:
    """To write it anew::

    python -c "from pathlib import Path; from ges.settings.reference import renewed; \\
        page = Path('docs/settings.md'); page.write_text(renewed(page.read_text()))"
    """
    text = (ROOT / "docs" / "settings.md").read_text()
    assert text == renewed(text)


def test_the_example_is_in_order_and_has_all_settings() -> None:
    """It is what ``chordal config show --toml --config deploy/chordal.toml`` prints."""
    assert EXAMPLE.read_text() == to_copy(gather(Sources(EXAMPLE)).found)
    code, told = check("--config", str(EXAMPLE))
    assert code == 1, "its files are on no machine of ours"
    assert all("/etc/chordal/" in line or "/var/lib/chordal" in line for line in told), told
