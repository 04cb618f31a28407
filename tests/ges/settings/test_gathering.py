"""Where settings come from: which source is stronger, and what is said of mistakes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from ges.broker.broker import CHANGEABLE
from ges.broker.config import BrokerConfig
from ges.settings.brokers import broker_config, limits_of
from ges.settings.files import read_file
from ges.settings.gathering import (
    BY_KEY,
    TABLE,
    Gathered,
    Source,
    Sources,
    gather,
    odd_variables,
    settings_from,
)
from ges.settings.schema import LogLevel, Settings
from ges.settings.values import from_text, from_toml, wanted, written
from overlay.errors import ConfigError
from overlay.limits import LIMITS, Limits

#: Tables whose settings the command itself goes by.
NOT_FOR_THE_BROKER = ("mqtt", "admin", "log")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chordal.toml"


def mistakes(file: Path, text: str) -> list[str]:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        gather(Sources(file))
    return str(caught.value).splitlines()


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default(file: Path) -> None:
    def found(environment: Mapping[str, str], flags: Mapping[str, object]) -> tuple[object, str]:
        each = gather(Sources(file, environment, flags)).found["log.level"]
        return each.value, each.place

    file.write_text("")
    variable, flag = {"CHORDAL_LOG": "error"}, {"log.level": LogLevel.DEBUG}
    assert found({}, {}) == (LogLevel.INFO, "default")
    file.write_text('\n[log]\nlevel = "warning"')
    assert found({}, {}) == (LogLevel.WARNING, f"{file}:3")
    assert found({"CHORDAL_LOG": ""}, {}) == (LogLevel.WARNING, f"{file}:3")
    assert found(variable, {}) == (LogLevel.ERROR, "CHORDAL_LOG")
    assert found(variable, flag) == (LogLevel.DEBUG, "--log-level")


def test_the_defaults_of_a_broker_are_those_of_the_library() -> None:
    assert broker_config(gather(Sources()).settings) == BrokerConfig()
    assert limits_of(Settings()) == LIMITS == Limits()


def test_what_reloads_is_what_a_running_broker_takes() -> None:
    """Change each setting in turn, and see what a broker would be made from."""
    default = broker_config(Settings())
    for setting in TABLE:
        changed = settings_from(
            {each.key: each.default for each in TABLE} | {setting.key: other(setting.key)}
        )
        config = broker_config(changed)
        differs = {
            name
            for name in BrokerConfig.__dataclass_fields__
            if getattr(config, name) != getattr(default, name)
        }
        if setting.table in NOT_FOR_THE_BROKER:
            assert not differs
        else:
            assert differs, f"{setting.key} is not handed on"
            assert (differs <= set(CHANGEABLE)) is setting.about.reloads, setting.key


def other(key: str) -> object:
    """Return a value of a setting that is not its default."""
    setting = BY_KEY[key]
    if setting.choices:
        return from_text(setting, [c for c in setting.choices if c != setting.default][-1])
    for text in (
        "x",
        "1",
        "3",
        "0.5",
        "9",
        "1s",
        "2s",
        "2MiB",
        "64MiB",
        "1KiB",
        "chordal://a:1",
        "127.0.0.1:1",
        "mdns:",
        "10.1.0.0/16",
        "64,16,8,8",
    ):
        try:
            value = from_text(setting, text)
        except ConfigError:
            continue
        if value != setting.default:
            return value
    raise AssertionError(key)


@pytest.mark.parametrize("key", BY_KEY)
def test_what_is_written_of_a_value_is_read_again(key: str) -> None:
    setting = BY_KEY[key]
    for value in (other(key), setting.default):
        if value is not None and value != "":
            assert from_toml(setting, written(setting, value)) == value


def test_relative_paths_start_at_the_file(file: Path) -> None:
    file.write_text('data = "state"\n[security]\nidentity = "/etc/chordal/me"')
    settings = gather(Sources(file)).settings
    assert settings.data == file.parent / "state"
    assert settings.security.identity == Path("/etc/chordal/me")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a = 3", 1, "a: unknown key"),
        ("\nlisten_ = 3", 2, "listen_: unknown key; the nearest is listen"),
        ("max_clients = 3", 1, "max_clients: unknown key; write limits.clients"),
        ("log_level = 'info'", 1, "log_level: unknown key; write log.level"),
        ("[limits]\n\nclient = 3", 3, "limits.client: unknown key; the nearest is limits.clients"),
        ("[limit]\nclients = 3", 2, "limit.clients: unknown key; write limits.clients"),
        ("[limits]\nclients = 'many'", 2, "limits.clients: 'many' is not a whole number from 0 to"),
        ("[limits]\nclients = '5'", 2, "limits.clients: '5' is not a whole number from 0 to"),
        ("[limits]\nclients = -1", 2, "limits.clients: -1 is not a whole number from 0 to 1000000"),
        ("limits.clients = true", 1, "limits.clients: True is not a whole number"),
        ("[limits]\nconnection_rate = nan", 2, "limits.connection_rate: nan is not a number from"),
        ("[limits]\nconnection_rate = inf", 2, "limits.connection_rate: inf is not a number from"),
        ("[limits]\npayload = '2MiB'", 2, "limits.payload: '2MiB' is not a number of bytes, or"),
        ("[express]\nbudget = 5", 2, "express.budget: 5 is not a time such as 5ms"),
        ("[express]\nbudget = 0", 2, "above 0, at most 1h"),
        ("[express]\nrange = '11s'", 2, "express.range: '11s' is not a time such as"),
        ("[log]\nlevel = 'loud'", 2, "log.level: 'loud' is not one of debug, info, warning, error"),
        ("[ring]\nprofile = 'moon'", 2, "ring.profile: 'moon' is not one of lan, local, wan"),
        ("name = 'a b'", 1, "name: 'a b' is not a name of 1 to 64 letters"),
        ("name = 'a\\n'", 1, "is not a name of"),
        ("join = 'chordal://a:1'", 1, "join: 'chordal://a:1' is not a list of URLs of brokers"),
        ("join = [\n 'chordal://a:1',\n 'http://b',\n]", 1, "'http://b' is not a broker URL"),
        ("listen = 'a:b:c'", 1, "listen: 'a:b:c' is not HOST:PORT"),
        ("listen = 9470", 1, "listen: 9470 is not an address HOST:PORT"),
        ("data = 5", 1, "data: 5 is not a path"),
        ("overlay = ''", 1, "1 to 64 characters"),
        ("limits = 3", 1, "limits: must be a table; write [limits] above its keys"),
        ("[[limits]]\nclients = 3", 1, "limits: must be a table"),
        ("[listen]\nport = 3", 2, "listen.port: listen is a setting and no table"),
        ("[log]\nlevel = '''\nx\n'''\nformatt = 'json'", 5, "log.formatt: unknown key; the near"),
        ("'a\x1b' = 3", 1, None),
        ('"a\\u001b" = 3', 1, r"a\x1b: unknown key"),
        ("x = ", 1, "nvalid "),
        ("name = 'a'\nname = 'b'", 2, "Cannot overwrite a value"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(
    file: Path, text: str, line: int, said: str | None
) -> None:
    (told,) = [told for told in mistakes(file, text) if said is None or said in told]
    assert told.startswith(f"{file}:{line}: ")
    assert told.isprintable()


def test_all_mistakes_are_told_at_once(file: Path) -> None:
    file.write_text("x = 1\n[log]\nlevel = 2")
    with pytest.raises(ConfigError) as caught:
        gather(Sources(file, {"CHORDAL_BACKUPS": "9"}))
    assert str(caught.value).splitlines() == [
        f"{file}:1: x: unknown key; 'chordal config show' lists all",
        f"{file}:3: log.level: 2 is not one of debug, info, warning, error",
        "CHORDAL_BACKUPS: '9' is not a whole number from 1 to 4",
    ]


@pytest.mark.parametrize("content", [b"\xff", b"x" * 70_000])
def test_what_is_no_settings_file_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=str(file)):
        gather(Sources(file))


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory; --config wants"):
        gather(Sources(file))


KEYS = st.sampled_from(["a", "b", '"c.d"', "e.f"])
VALUES = st.sampled_from(['"x"', "3", "[\n 1, # ]\n 2\n]", '"""\nb = 1\n[t]\n"""', "{ y = 1 }"])
BLANK = st.sampled_from(["", "# a = 1", "  "])
TABLES = st.sampled_from(["[t]", "[t.u]", "[[l]]", "  [ v ]  # x"])
STATEMENTS = st.one_of(st.tuples(KEYS, VALUES).map(" = ".join), BLANK, TABLES)


@given(st.lists(STATEMENTS, max_size=12))
def test_each_key_is_found_on_the_line_where_its_statement_begins(statements: list[str]) -> None:
    text = "\n".join(statements)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # a key twice, say
    starts = {}
    line = 1
    for statement in statements:
        starts[line] = statement
        line += statement.count("\n") + 1
    path = Path("/tmp") / "unused"
    for entry in read_file_text(path, text):
        assert entry[1] in starts
        last = entry[0][-1] if entry[0] else ""
        statement = starts[entry[1]].strip()
        assert statement.startswith("[") or last.split(".")[0].strip('"') in statement


def read_file_text(path: Path, text: str) -> list[tuple[tuple[str, ...], int]]:
    from ges.settings import files

    lines = dict(files._lines(text))
    return [(at, files._line(at, lines)) for at, _ in files._leaves(tomllib.loads(text))]


def test_a_file_says_which_key_is_where(file: Path) -> None:
    file.write_text("listen = '1'\n\n# x\njoin = [\n 'a',\n]\n[log] # y\nlevel = 'info'\n")
    found = {".".join(entry.path): entry.line for entry in read_file(file).entries}
    assert found == {"listen": 1, "join": 4, "log.level": 8}


def test_variables_that_are_nearly_settings_are_named() -> None:
    given = {"CHORDAL_MAX_CLINTS": "", "CHORDAL_PORT": "tcp://x", "CHORDAL_TOKEN": "x", "PATH": ""}
    (told,) = odd_variables(given)
    assert "CHORDAL_MAX_CLINTS is not known" in told
    assert told.endswith("the nearest is CHORDAL_MAX_CLIENTS")


def test_flags_and_variables_are_named_alike_and_once() -> None:
    for names in (
        [each.about.flag for each in TABLE],
        [each.about.env for each in TABLE],
        [each.key for each in TABLE],
    ):
        assert len(set(names)) == len(names)
    for each in TABLE:
        assert each.text.endswith("."), each.key
        assert wanted(each)


def test_no_setting_is_a_secret() -> None:
    """What is printed, logged and kept in the file is nothing that opens a door."""
    telling = {"token", "tokens", "secret", "password", "key", "credentials"}
    for each in TABLE:
        if telling & set(each.key.replace(".", "_").split("_")):
            assert not isinstance(each.bare, inspect.StrType), f"{each.key} is to be a path"


def test_sources_are_told_apart(file: Path) -> None:
    file.write_text("backups = 3")
    file.write_text("[ring]\nbackups = 3")
    found: Gathered = gather(Sources(file, {"CHORDAL_LOG": "debug"}, {"name": "a"}))
    sources = {key: each.source for key, each in found.found.items()}
    assert sources.pop("ring.backups") is Source.FILE
    assert sources.pop("log.level") is Source.ENVIRONMENT
    assert sources.pop("name") is Source.FLAG
    assert set(sources.values()) == {Source.DEFAULT}
