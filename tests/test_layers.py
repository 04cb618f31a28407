"""Imports run down, and the protocol touches nothing that it should not.

The protocol does no I/O, reads no clock and owns no randomness: that is what lets the same code run
on sockets and in the simulator.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Where nothing reads a clock or a file, waits, or draws from a randomness of its own: rooms,
#: whose first line says so, and single files of other rooms.
PURE_ROOMS = {
    *("overlay.wire", "overlay.queues", "overlay.multigraph"),
    *("ring.wire", "ring.circle", "ring.joining", "ring.detection", "ring.repair", "ring.records"),
    "ring.coordination",
    *("ges.wire", "ges.matching", "ges.telling", "ges.topology", "ges.units", "ges.gateways"),
    *("ges.profiles", "ges.retained", "ges.directory"),
    *("ges.order", "ges.delivery", "ges.routing"),
    *(
        "sims.world",
        "sims.verdicts",
        "sims.workloads",
        "sims.experiments",
        "sims.explore",
        "sims.stories",
    ),
}
PURE_FILES = {
    *("overlay.address", "overlay.circular", "overlay.errors", "overlay.ids", "overlay.limits"),
    *(
        "overlay.machine",
        "overlay.rng",
        "overlay.shares",
        "overlay.trace_schema",
        "overlay.wording",
    ),
    *("overlay.links.bulkhead", "overlay.links.doorkeeper", "overlay.links.counted_log"),
    *("overlay.links.keeping", "overlay.links.taking", "overlay.links.acknowledgements"),
    *("overlay.links.stillness", "overlay.links.first_seen"),
    *("overlay.net.turn", "overlay.security.revocation"),
    *("ring.config", "ring.core", "ring.errors", "ring.facts", "ring.geometry", "ring.invariants"),
    *("ring.node", "ring.verdicts"),
    *("ges.errors", "ges.node", "ges.stack"),
    *("ges.access.rules", "ges.access.tokens", "ges.access.token_proof", "ges.client.watermarks"),
    *("ges.access.operators", "ges.sessions.operators"),
    *("ges.sessions.parking", "ges.sessions.parked_events", "ges.sessions.session"),
    *("ges.sessions.active_notices", "ges.sessions.visitors"),
    *(
        "ges.sessions.absences",
        "ges.sessions.event_lookup",
        "ges.sessions.explanations",
        "ges.sessions.intake",
        "ges.sessions.named_events",
        "ges.sessions.replies",
        "ges.sessions.subscription_shares",
        "ges.sessions.subscriptions",
    ),
    *("ges.client.keepalive", "ges.client.open_run", "ges.client.outgoing"),
    *("ges.client.resuming", "ges.client.state", "ges.client.core", "ges.client.gaps"),
    *("ges.client.greeting", "ges.client.subscription", "ges.client.tries", "ges.client.waiting"),
    *("ges.client.loop", "ges.client.plain_errors"),
    *("ges.mqtt.aliases", "ges.mqtt.codec", "ges.mqtt.gateway", "ges.mqtt.greeting"),
    *("ges.mqtt.mapping", "ges.mqtt.outgoing", "ges.mqtt.packets", "ges.mqtt.properties"),
    *("ges.mqtt.reading", "ges.mqtt.reasons", "ges.mqtt.shared", "ges.mqtt.wishes"),
    "ges.mqtt.writing",
}
IMPURE = {
    "asyncio",
    "ctypes",
    "datetime",
    "fcntl",
    "os",
    "pathlib",
    "secrets",
    "select",
    "socket",
    "ssl",
    "subprocess",
    "threading",
    "time",
    "trio",
    "uuid",
}
#: Modules with the departures that docs/ring.md, failures.md and records.md name.
DEPARTURES = (
    *(
        "neighbourhood",
        "gap_owner",
        "gap_choice",
        "chords",
        "drawn_chords",
        "searches",
        "suspicions",
    ),
    *("witness", "dead_runs", "detours", "damping", "chord_queries", "backups", "duties"),
    *("handover", "replicas", "homes", "merge", "membership"),
)
PACKAGES = ("overlay", "ring", "ges", "sims", "spark")
HEAVY = {"matplotlib", "pandas", "pyarrow", "pyspark"}
DRAWING = "sims.plots"  #: a room that is nothing but drawings; so it is as heavy as what it imports


def names_of(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def path_of(module: str) -> Path:
    """Return the file of a module, or the folder of a room."""
    path = ROOT.joinpath(*module.split("."))
    return path if path.is_dir() else path.with_suffix(".py")


def pure_files() -> list[Path]:
    rooms = [path for room in sorted(PURE_ROOMS) for path in sorted(path_of(room).rglob("*.py"))]
    return rooms + [path_of(module) for module in sorted(PURE_FILES)]


def imports(tree: ast.AST, *, at_the_top: bool = False) -> Iterator[str]:
    """Yield the names of modules imported; on request only what importing the file imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield node.module
        elif not (at_the_top and is_late(node)):
            yield from imports(node, at_the_top=at_the_top)


def is_late(node: ast.AST) -> bool:
    """Say whether importing the file does not run what is inside ``node``."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def impurities(path: Path, tree: ast.AST) -> list[str]:
    """Return what a pure file imports or calls and should not."""
    found = [
        f"{path} imports {name}: protocol code is handed the time and does no I/O"
        for name in imports(tree)
        if name.split(".")[0] in IMPURE
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            drawn = [alias.name for alias in node.names if alias.name != "Random"]
            found += [
                f"{path} imports random.{name}: draw from the stream handed in" for name in drawn
            ]
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "random"
            and node.attr != "Random"
        ):
            found.append(f"{path} uses random.{node.attr}: draw from the stream handed in")
        if isinstance(node, ast.Name) and node.id == "open":
            found.append(f"{path} opens a file: protocol code does no I/O")
    return found


# The project


def test_imports_run_down() -> None:
    """The contracts stand in pyproject.toml; ``make lint`` holds the code to them as well."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", [*PACKAGES, "benchmarks", "tests/mutants", "tests/helpers"])
def test_the_map_of_a_package_or_room_has_all_its_files(package: str) -> None:
    for initial in (ROOT / package).rglob("__init__.py"):
        drawn = ast.get_docstring(parsed(initial)) or ""
        names = set(re.findall(r"``(\w+)``", drawn))
        files = {path.stem for path in initial.parent.glob("*.py")} - {"__init__"}
        rooms = {path.parent.name for path in initial.parent.glob("*/__init__.py")}
        assert names >= files | rooms


@pytest.mark.parametrize("name", DEPARTURES)
def test_a_departure_from_the_paper_is_marked(name: str) -> None:
    [path] = (ROOT / "ring").rglob(f"{name}.py")
    said = ast.get_docstring(parsed(path)) or ""
    assert "Departs from the paper" in " ".join(said.split())


@pytest.mark.parametrize("package", ["overlay", "ring", "ges", "sims"])
def test_a_room_says_whether_it_is_pure(package: str) -> None:
    for initial in (ROOT / package).glob("*/__init__.py"):
        summary = (ast.get_docstring(parsed(initial)) or "").splitlines()[0]
        is_pure = f"{package}.{initial.parent.name}" in PURE_ROOMS
        assert ("Pure" in summary) is is_pure, initial


def test_protocol_code_is_pure() -> None:
    assert [line for path in pure_files() for line in impurities(path, parsed(path))] == []


@pytest.mark.parametrize("package", ["overlay", "ring", "ges", "sims"])
def test_what_is_heavy_is_imported_late(package: str) -> None:
    found = [
        f"{path} imports {name} at its top: import it in the function that needs it"
        for path in names_of(package)
        if path.parent != ROOT.joinpath(*DRAWING.split("."))
        for name in imports(parsed(path), at_the_top=True)
        if name.split(".")[0] in HEAVY or name.startswith(DRAWING)
    ]
    assert found == []


SIMULATE = """
from sims.scenarios import library, play, files
play.play("crash", files.parse(library.find("crash"), ["nodes=3"]), 1)
"""


@pytest.mark.parametrize(
    ("missing", "program"),
    [
        (sorted(IMPURE & {"trio", "ssl", "socket", "asyncio"} | HEAVY), "import ring.node"),
        (sorted({"trio"} | HEAVY), SIMULATE),
        (sorted({"trio"} | HEAVY), "import ges.client.aio, ges.client.sync"),
    ],
    ids=[
        "the ring without sockets",
        "the simulator without trio",
        "a client for asyncio without trio",
    ],
)
def test_it_runs(missing: list[str], program: str) -> None:
    hide = f"import sys; sys.modules.update(dict.fromkeys({missing}))"
    command = [sys.executable, "-c", f"{hide}; {program}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# The rules themselves


@pytest.mark.parametrize(
    "source",
    [
        "import trio",
        "import os.path",
        "from time import monotonic",
        "def late():\n    import secrets",
        "from pathlib import Path",
        "import select",
        "import subprocess",
        "with open('list') as file:\n    pass",
        "lines = list(map(open, names))",
        "import random\nrandom.random()",
        "import random\nrandom.shuffle([])",
        "from random import choice",
    ],
)
def test_an_impurity_is_found(source: str) -> None:
    assert len(impurities(Path("x.py"), ast.parse(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import random\nrng: random.Random",
        "from random import Random",
        "import heapq",
        "links.open(peer.url, peer.uid)",
    ],
)
def test_what_is_pure_is_no_finding(source: str) -> None:
    assert impurities(Path("x.py"), ast.parse(source)) == []


def test_a_late_import_is_told_from_one_at_the_top() -> None:
    source = (
        "import a\nif TYPE_CHECKING:\n    import b\ndef f():\n    import c\nclass K:\n    import d"
    )
    assert list(imports(ast.parse(source), at_the_top=True)) == ["a", "d"]
    assert sorted(imports(ast.parse(source))) == ["a", "b", "c", "d"]
