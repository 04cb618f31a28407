"""The report: what it says, and that it appears whole or not at all."""

from __future__ import annotations

import csv
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from spark.analysis.groups import Group
from spark.errors import ReportError
from spark.report.folder import FILES, check_place, write_report
from spark.report.open_questions import questions
from tests.spark.results import analysis


class Page(HTMLParser):
    """A page as a browser would take it: its text, its tags, and whether each was closed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.text = ""
        self.tags: list[str] = []
        self._open: list[str] = []
        self.feed(self.source)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


COMMAND = "chordal recovery analyze data --out report"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a report, for those who only read it; it stands in the report's folder."""
    directory = tmp_path_factory.mktemp("written") / "report"
    return write_report(analysis(), directory, COMMAND)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_page_has_all_sections_with_their_plots_and_tables(written: Path) -> None:
    page = Page(written)
    found = analysis()
    for verdict in found.verdicts:
        assert verdict.words in page.text
    headings = re.findall(r"<h2>(.*?)</h2>", page.source)
    assert [heading.split(":")[0].split(",")[0] for heading in headings] == [
        "Phases",
        "Survival",
        "Growth",
        "Churn",
        "Delivery of events",
        "Settings compared",
        "Outliers",
        "What could not be answered",
        "The data",
    ]
    assert page.tags.count("svg") == 5
    for said in ("0.1.0, 0.2.0", "chordal recovery analyze data", "--seed 7", "99.995%"):
        assert said in page.text


def test_it_opens_with_an_answer_three_numbers_and_one_plot(written: Path) -> None:
    body = Page(written).source.split("</h1>")[1].split("<h2>")[0]
    assert body.count('class="answer"') == 1
    assert body.count('class="key"') == 3
    assert body.count("<svg") == 1
    assert body.index('class="answer"') < body.index('class="key"') < body.index("<svg")
    assert "<table" not in body


def test_what_was_not_measured_is_a_footnote_and_no_heading(written: Path) -> None:
    source = Page(written).source
    notes = source[source.rindex("<ol") :]
    assert "live, wan, live: detection, confirmation" in notes
    assert "live brokers do not see when another one dies" in notes
    assert "not measured" not in "".join(re.findall(r"<h\d>.*?</h\d>", source))


def test_the_page_stands_alone_and_its_drawings_do_not_clash(written: Path) -> None:
    page = Page(written)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', page.source) == []
    ids = re.findall(r'\bid="([^"]+)"', page.source)
    assert len(ids) == len(set(ids)) > 0
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page.source)) <= set(ids)


def test_what_is_in_the_data_is_text_and_nothing_else(tmp_path: Path) -> None:
    group = Group(source="simulator", scenario="<b>|x", profile="lan", parameters="no JSON")
    found = analysis(group)
    facts = msgspec.structs.replace(found.facts, versions=("<i>1.0",))
    found = msgspec.structs.replace(found, facts=facts)
    page = Page(write_report(found, tmp_path / "report"))
    assert not {"b", "i"} & set(page.tags)
    assert "<b>|x, lan" in page.text
    assert "<i>1.0" in page.text


def test_the_markdown_says_the_same(written: Path) -> None:
    text = (written.parent / "report.md").read_text("utf-8")
    for verdict in analysis().verdicts:
        assert verdict.words in text
    for line in ("| total | 1,024 | 10 | 141 | 1 | 9 | 8.55 to 9.45 | 13.5 |", "- **9 s**: median"):
        assert line in text
    assert re.findall(r"<h2>(.*?)</h2>", written.read_text("utf-8")) == re.findall(
        r"^## (.*)$", text, re.MULTILINE
    )


def test_tables_are_there_as_csv_and_parquet(written: Path) -> None:
    report = written.parent
    assert set(contents(report)) == set(FILES)
    quantiles = pq.read_table(report / "quantiles.parquet").to_pylist()
    assert quantiles == msgspec.to_builtins(list(analysis().quantiles))
    with (report / "quantiles.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["measure"] for row in rows] == [row["measure"] for row in quantiles]
    assert (rows[1]["n"], rows[1]["p50"], float(rows[2]["p50"])) == ("", "", 8.0)
    with (report / "fits.csv").open(encoding="utf-8", newline="") as file:
        fits = list(csv.DictReader(file))
    assert [row["growth"] for row in fits] == ["log"] * 10 + ["sqrt"] * 5 + ["undecided"] * 5
    outliers = pq.read_table(report / "outliers.parquet").to_pylist()
    assert outliers == msgspec.to_builtins(list(analysis().outliers))
    assert pq.read_table(report / "fits.parquet").column("verdict")[0].as_py() == fits[0]["verdict"]


def test_the_same_analysis_gives_the_same_bytes(tmp_path: Path, written: Path) -> None:
    again = write_report(analysis(), tmp_path / "again", COMMAND).parent
    assert contents(written.parent) == contents(again)


def test_an_earlier_report_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "report"
    write_report(analysis(), place)
    other = Group(source="simulator", scenario="another", profile="lan", parameters=None)
    assert "another" in Page(write_report(analysis(other), place)).text
    assert [path.name for path in place.parent.iterdir()] == ["report"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    assert write_report(analysis(), tmp_path / "report").exists()


def test_few_incidents_and_one_seed_are_said_to_be_so(tmp_path: Path) -> None:
    found = analysis()
    alone = ("p50_low", "p50_high", "p99_low", "p99_high")
    rows = [msgspec.structs.replace(r, **dict.fromkeys(alone)) for r in found.quantiles]
    found = msgspec.structs.replace(found, quantiles=tuple(rows))
    opening = Page(write_report(found, tmp_path / "report")).text.split("Phases")[0]
    assert "after 17.1 s in 99 of 100 cases" in opening
    assert "one seed: no interval" in opening
    few = [msgspec.structs.replace(row, count=40, open=0, max=22.5) for row in rows]
    found = msgspec.structs.replace(found, quantiles=tuple(few))
    opening = Page(write_report(found, tmp_path / "report")).text.split("Phases")[0]
    assert "after 22.5 s in the slowest of 40 cases" in opening
    assert "1 of 1 failures" not in opening


def test_what_one_run_would_tell_is_one_question() -> None:
    found = analysis()
    (open_one,) = (v for v in found.verdicts if v.question)
    more = [
        msgspec.structs.replace(open_one, measure="total", quantile="p50"),
        msgspec.structs.replace(open_one, parameters='{"chords":"none","crash_share":0.05}'),
    ]
    asked = questions(msgspec.structs.replace(found, verdicts=(open_one, *more)))
    told = "Larger rings: --nodes 64,1024,4096,16384 --seeds 40 would tell."
    assert asked[:2] == [
        f"How these grow: messages (p99), total (p50) (crash, lan, chords rank). {told}",
        f"How these grow: messages (p99) (crash, lan, chords none). {told}",
    ]


def test_a_folder_that_is_there_stays_the_same_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell may stand in it, or a disk may be mounted there; then it cannot be renamed."""
    place = tmp_path / "report"
    place.mkdir()
    monkeypatch.chdir(place)
    before = place.stat().st_ino
    for _ in range(2):
        assert write_report(analysis(), Path()) == place / "index.html"
        assert sorted(os.listdir(".")) == sorted(FILES)
    assert place.stat().st_ino == before
    assert list(tmp_path.iterdir()) == [place]


def test_what_one_that_was_killed_has_left_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".chordal-report-0123abcd").mkdir()
    (tmp_path / ".chordal-report-0123abcd" / "index.html").touch()
    write_report(analysis(), tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(FILES)


@pytest.mark.parametrize("name", ["thesis.tex", "index.html"])
def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ReportError, match=str(tmp_path)):
        write_report(analysis(), tmp_path)
    assert contents(tmp_path) == {name: b"mine"}


def test_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ReportError, match=r"file is a file"):
        check_place(tmp_path / "file")


def test_a_place_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ReportError, match="cannot be written"):
        write_report(analysis(), tmp_path / "file" / "report")


def test_a_failure_leaves_the_earlier_report_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "report"
    write_report(analysis(), place)
    before = contents(place)

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("spark.report.plots.survival_plot", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_report(analysis(), place)
    assert contents(place) == before
    assert list(tmp_path.iterdir()) == [place]
