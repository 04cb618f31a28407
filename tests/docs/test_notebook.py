"""The notebook of the examples: all of its cells run, and show tables and plots."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.spark.conftest import JVM_OF_SECONDS

EXAMPLE = Path(__file__).parents[2] / "examples" / "recovery.ipynb"


def kept() -> nbformat.NotebookNode:
    read: nbformat.NotebookNode = nbformat.reads(EXAMPLE.read_text(), 4)  # type: ignore[no-untyped-call]
    return read


def test_it_is_kept_without_what_it_has_printed() -> None:
    notebook = kept()
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.filterwarnings("default")  # of what Jupyter does with its event loop
def test_it_runs_from_the_first_cell_to_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**JVM_OF_SECONDS, "TMPDIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", os.fspath(tmp_path / "ipython"))
    notebook = kept()
    folder = {"metadata": {"path": os.fspath(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=folder).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [output.get("data", {}) for output in outputs]
    pages = [data["text/html"] for data in shown if "text/html" in data]
    assert sum("<svg" in page for page in pages) >= 3, "plots are inline"
    assert sum("dataframe" in page for page in pages) == 3, "tables are frames of pandas"
    printed = "".join(output["text"] for output in outputs if output.output_type == "stream")
    assert "median s" in printed, "tables are frames of Spark"
    assert "units_p50_s" in printed
    said = [data["text/plain"] for data in shown if "text/plain" in data]
    assert said[0] == "[]", "no run failed, or broke a promise"
    assert any("whole again" in each for each in said)
    assert said[-1] == "'index.html'"
