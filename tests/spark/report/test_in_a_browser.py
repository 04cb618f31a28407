"""The report as a browser draws it: nothing is fetched, nothing sticks out, all plots are seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from spark.report.folder import write_report
from tests.spark.results import analysis

BROWSER = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
OPTIONS = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
TIMEOUT_S = 120
WIDTH, HEIGHT = 1000, 800

#: Writes what it measures into the page's title, which ends up in the dump of the page.
MEASURE = """
<script>
addEventListener("load", () => {
  const wide = [...document.querySelectorAll("svg, p, h2, .key, pre")].filter(
    (one) => one.getBoundingClientRect().right > innerWidth + 1);
  const plots = [...document.querySelectorAll("figure svg")].filter(
    (one) => one.getBoundingClientRect().height > 50);
  const lead = document.querySelector("figure svg").getBoundingClientRect();
  const fetched = performance.getEntriesByType("resource").length;
  document.title = `measured ${wide.length} ${plots.length} ${Math.round(lead.bottom)} ${fetched}`;
});
</script>
"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on the PATH")


def browse(page: Path, *options: str) -> bytes:
    """Let the browser do one thing to a page, with a profile of its own."""
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with tempfile.TemporaryDirectory(prefix="chordal-browser-", ignore_cleanup_errors=True) as own:
        command = [str(BROWSER), *OPTIONS, *sandbox, f"--user-data-dir={own}"]
        command += [f"--window-size={WIDTH},{HEIGHT}", *options, page.as_uri()]
        return subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=True).stdout


def test_a_browser_draws_all_of_it_within_its_window_and_fetches_nothing(tmp_path: Path) -> None:
    written = write_report(analysis(), tmp_path / "report").read_text("utf-8")
    page = tmp_path / "measured.html"
    page.write_text(written.replace("</body>", f"{MEASURE}</body>"), "utf-8")
    dumped = browse(page, "--dump-dom").decode()
    title = dumped.split("<title>")[1].split("</title>")[0]
    said, wide, plots, lead_bottom, fetched = title.split()
    assert said == "measured"
    assert (wide, plots, fetched) == ("0", str(written.count("<figure>")), "0")
    assert int(lead_bottom) < HEIGHT  # the whole plot is on the first screen


@pytest.mark.soak
def test_it_prints(tmp_path: Path) -> None:
    page = write_report(analysis(), tmp_path / "report")
    printed = tmp_path / "report.pdf"
    browse(page, f"--print-to-pdf={printed}", "--no-pdf-header-footer")
    pages = printed.read_bytes().count(b"/Type /Page\n")
    assert 2 <= pages <= 12
