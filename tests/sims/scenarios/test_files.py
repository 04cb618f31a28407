"""Scenario files: what is wrong with one is named, with what is allowed there."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from overlay.errors import ConfigError
from sims.scenarios import library
from sims.scenarios.files import ScenarioFile, parse, read
from sims.scenarios.matrix import read_matrix
from sims.scenarios.reference import page
from sims.scenarios.schema import Crash, Mode
from sims.scenarios.sessions import Session, read_sessions

DOCS = Path(__file__).parents[3] / "docs"


def file(text: str) -> ScenarioFile:
    return ScenarioFile("mine", text, Path())


@pytest.mark.parametrize("name", library.names())
def test_every_scenario_of_the_library_is_one(name: str) -> None:
    scenario = parse(library.find(name))
    assert scenario.about
    assert scenario.churn or scenario.faults or scenario.workload


def test_every_scenario_of_the_library_has_a_row_of_what_was_found() -> None:
    text = (DOCS / "experiments.md").read_text()
    assert [name for name in library.names() if f"\n| `{name}` | " not in text] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('about = "x"\nbrokers = 3', "mine.toml: unknown key 'brokers'; there are: about, "),
        ('about = "x"\nnode = 3', "nearest is 'nodes'"),
        ("nodes = 3", "the key 'about' is missing"),
        ('about = "x"\nnodes = 0', "nodes: expected int >= 1"),
        ('about = "x"\nnodes = "a"', "nodes: expected int, got str"),
        ('about = "x"\nprofile = "lann"', "profile: no 'lann'; nearest is 'lan'"),
        ('about = "x"\n[[faults]]\nshare = 1.0', "faults[0]: the key 'kind' is missing"),
        ('about = "x"\n[[faults]]\nkind = "crsh"', "faults[0].kind: no kind 'crsh'; nearest is "),
        ('about = "x"\n[[faults]]\nkind = "crash"\nshar = 1', "faults[0]: unknown key 'shar'; "),
        ('about = "x"\n[[faults]]\nkind = "crash"\nmode = "powr"', "faults[0].mode: no 'powr'"),
        (
            'about = "x"\n[[faults]]\nkind = "crash"\nshare = 2',
            "faults[0].share: expected float",
        ),
        ('about = "x"\n[[churn]]\nkind = "sessions"\nmean_s = 0', "churn[0].mean_s: expected"),
        ('about = "x"\n[network]\nloss = "much"', "network.loss: expected float, got str"),
        ('about = "x', "mine.toml: "),
        ('about = "x"\nnodes = ' + 5000 * "9", "mine.toml: "),
        ('about = "x"\nring = ' + 9000 * "[", "mine.toml: "),
        (
            'about = "x"\n[[churn]]\nkind = "sessions"\nmean_s = 9\nlaw = "weibull"\nshape = 0.001',
            "mine.toml: churn[0]: shape of weibull is 0.001: ",
        ),
        (
            'about = "x"\n[[churn]]\nkind = "sessions"\nmean_s = 1e-300',
            "churn[0].mean_s: expected float >= 0.01",
        ),
        (
            'about = "x"\n[[churn]]\nkind = "arrivals"\nper_minute = 1e-320',
            "churn[0].per_minute: expected float >= 1e-06",
        ),
        (
            'about = "x"\n[[faults]]\nkind = "cut-links"\nfor_s = 1e-300\nagain_s = 0',
            "faults[0].for_s: expected float >= 0.001",
        ),
        (
            'about = "x"\n[[faults]]\nkind = "clocks"\nrates = [1e-300]',
            "faults[0].rates[0]: expected float >= 0.01",
        ),
        (
            'about = "x"\n[workload]\nroam_s = 1e-300',
            "workload.roam_s: expected float >= 0.001",
        ),
        (
            'about = "x"\n[[faults]]\nkind = "partition"\ngroups = [0.7, 0.7]',
            "faults[0].groups: they add up to 1.4, and 1 is all brokers",
        ),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(file(text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_can_be_changed_without_a_file() -> None:
    text = 'about = "x"\n[[faults]]\nkind = "crash"\n'
    changes = ["faults.0.share=0.5", "nodes=7", "mode=whole", "network.loss=0.1"]
    scenario = parse(file(text), changes)
    assert scenario.faults == (Crash(share=0.5),)
    assert (scenario.nodes, scenario.mode, scenario.network.loss) == (7, Mode.WHOLE, 0.1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("nodes", "give key=value"),
        ("=3", "give key=value"),
        ("faults.1.share=0.1", "'1' must be a number below 1"),
        ("about.x.y=1", "about is no table"),
        (
            "churn.3.count=1",
            "--set 'churn.3.count=1': the scenario has no churn; a file of your own",
        ),
        ("faults.0.share=x", "faults[0].share: expected float, got str"),
    ],
)
def test_a_change_that_makes_no_sense_is_named(change: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(file('about = "x"\n[[faults]]\nkind = "crash"\n'), [change])
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*no\.toml"):
        read(tmp_path / "no.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not text in UTF-8"):
        read(tmp_path / "bytes.toml")


def test_the_library_goes_with_the_package() -> None:
    """An installed chordal has the scenarios, and the files that they name."""
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["sims.scenarios"]
    packed = {path for pattern in patterns for path in library.FOLDER.parent.glob(pattern)}
    assert packed == {path for path in library.FOLDER.iterdir() if path.is_file()}


def test_the_page_is_what_the_structs_say() -> None:
    """To write it anew: replace all from its second section on by what ``page()`` returns."""
    assert (DOCS / "scenarios.md").read_text().endswith(page())


# ── files beside it ───────────────────────────────────────────────────────────────────────────


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    """Editors and spreadsheets write one."""
    mark = b"\xef\xbb\xbf"
    (tmp_path / "m.toml").write_bytes(mark + b'about = "x"\nnodes = 7\n')
    assert parse(read(tmp_path / "m.toml")).nodes == 7
    (tmp_path / "s.csv").write_bytes(mark + b"uid,start_s,end_s\r\na,0,3\r\n")
    assert read_sessions(tmp_path / "s.csv") == [Session(0, "a", 3)]
    (tmp_path / "m.csv").write_bytes(mark + b"eu,us\n1,2\n2,1\n")
    assert read_matrix(tmp_path / "m.csv").names[0] == "eu"


def test_sessions_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("uid,start_s,end_s\nb,5,\na,0,3\na,4,9\n")
    found = [Session(0, "a", 3), Session(4, "a", 9), Session(5, "b", None)]
    assert read_sessions(path) == found


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("a,0,1", "the first line must be uid,start_s,end_s"),
        ("uid,start_s,end_s", "has no sessions"),
        ("uid,start_s,end_s\na,0", "line 2: 2 fields, 3 are needed"),
        ("uid,start_s,end_s\n,0,1", "line 2: the uid is empty"),
        ("uid,start_s,end_s\na,x,1", "start_s is 'x'"),
        ("uid,start_s,end_s\na,-1,1", "start_s is '-1'"),
        ("uid,start_s,end_s\na,1e308,", "must be seconds from 0 to 1e+10"),
        ("uid,start_s,end_s\na,2,1", "it ends at 1, before it starts at 2"),
        ("uid,start_s,end_s\na,0,5\na,4,9", "two sessions of a overlap"),
    ],
)
def test_a_broken_line_of_sessions_is_named(tmp_path: Path, lines: str, said: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(lines + "\n")
    with pytest.raises(ConfigError) as caught:
        read_sessions(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "must name 1 to"),
        ("a,a\n1,2\n3,4", "each once"),
        ("a,b\n1,2", "2 lines of 2 milliseconds must follow"),
        ("a,b\n1,2\n3", "2 lines of 2 milliseconds must follow"),
        ("a,b\n1,x\n3,4", "'x' must be milliseconds"),
        ("a,b\n1,-2\n3,4", "'-2' must be milliseconds"),
    ],
)
def test_a_broken_matrix_is_named(tmp_path: Path, lines: str, said: str) -> None:
    path = tmp_path / "m.csv"
    path.write_text(lines)
    with pytest.raises(ConfigError) as caught:
        read_matrix(path)
    assert said in str(caught.value)


# ── units and records ─────────────────────────────────────────────────────────────────────────

UNITS = 'about = "x"\nmode = "whole"\nnodes = {nodes}\n[units]\nlimit = 8\n{more}\n'


@pytest.mark.parametrize(
    ("nodes", "more", "words"),
    [
        (17, "levels = 2", "mine.toml: units.levels: 17 brokers .* from 18 to 216 can be"),
        (64, "levels = 4", r"units.levels: expected int <= 3"),
        (64, 'levels = 2\nnamed = ["a"]', "units.levels: .* leave out levels or named"),
        (64, 'levels = 2\n[ring]\nforming = "joins"', 'set ring.forming = "warm"'),
        (4, 'named = ["eu/fra/a/b"]', "units.named: 'eu/fra/a/b' has 4 names"),
        (4, 'named = [""]', "units.named: a name is empty; give one such as eu/fra/a"),
        (64, 'named = ["eu/fra/a", "eu/fra/b"]', "room for 8 of 64 brokers in 2 units"),
        (64, f"named = {[f'eu/u{at}' for at in range(9)]}", "9 units in eu, and the limit is 8"),
        (4, "names = []", r"units: unknown key 'names'; nearest is 'named'"),
        (
            4,
            "[promises]\nrecords_lost = 0",
            r"records_lost: nobody owns a record; add .*\[records\]",
        ),
    ],
)
def test_units_that_cannot_be_are_named_with_their_key_and_a_mend(
    nodes: int, more: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(file(UNITS.format(nodes=nodes, more=more)))


def test_a_ring_alone_has_no_units() -> None:
    with pytest.raises(ConfigError, match='units: a ring alone has none; add mode = "whole"'):
        parse(file('about = "x"'), ["units.limit=8"])
