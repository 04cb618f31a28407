"""Which package may import which, and what the protocol must not touch.

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
LAYERS = ("overlay", "ring", "ges", "sims", "spark")

#: What does I/O, reads clocks and files, or waits, and may; all else below ``sims`` is protocol.
#: A room, or a file of one (``links.doorkeeper`` would be the one in ``overlay/links/``).
DRIVERS = {
    "overlay": {"driver", "authority", "links", "net", "release", "security"},
    "ring": set[str](),
    "ges": {"access", "broker", "client", "operations", "sessions", "admin"},
}
#: Files of those rooms that are pure all the same.
PURE = {
    *("overlay.links.bulkhead", "overlay.links.doorkeeper", "overlay.links.counted_log"),
    *("overlay.net.turn", "overlay.security.revocation"),
    *("ges.access.rules", "ges.access.tokens", "ges.sessions.parking", "ges.client.watermarks"),
    *("ges.client.keepalive", "ges.client.outgoing", "ges.client.state"),
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
    *("neighbourhood", "gap_owner", "gaps", "chords", "drawn_chords", "searches", "suspicions"),
    *("witness", "dead_runs", "detours", "damping", "chord_queries", "backups", "duties"),
    *("handover", "replicas", "homes", "merge", "membership"),
)
HEAVY = {"matplotlib", "pandas", "pyarrow", "pyspark"}


def names_of(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def pure_files() -> list[Path]:
    """Return the files of protocol code; the command and the demo are none."""
    return [
        path
        for package, drivers in DRIVERS.items()
        for path in names_of(package)
        if parts_of(path)[1] not in {*drivers, "cli", "demo"} or ".".join(parts_of(path)) in PURE
    ]


def parts_of(path: Path) -> tuple[str, ...]:
    """Return the words of a module's name: package, room, file."""
    return path.relative_to(ROOT).with_suffix("").parts


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


def upward_imports(package: str, path: Path, tree: ast.AST) -> list[str]:
    allowed = LAYERS[: LAYERS.index(package) + 1]
    return [
        f"{path} imports {name}: {package} may import only {', '.join(allowed)}"
        for name in imports(tree)
        if name.split(".")[0] in LAYERS and name.split(".")[0] not in allowed
    ]


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


@pytest.mark.parametrize("package", LAYERS)
def test_a_package_imports_only_those_below_it(package: str) -> None:
    paths = names_of(package)
    assert paths != []
    assert [line for path in paths for line in upward_imports(package, path, parsed(path))] == []


@pytest.mark.parametrize("package", ["overlay", "ring", "ges", "sims", "benchmarks"])
def test_the_map_of_a_package_or_room_has_all_its_files(package: str) -> None:
    for initial in (ROOT / package).rglob("__init__.py"):
        if initial.parent.name in {"cli", "demo"}:
            continue
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


def test_drivers_are_files_or_rooms() -> None:
    for package, drivers in DRIVERS.items():
        assert drivers <= {path.stem for path in (ROOT / package).glob("*")}
    assert {".".join(parts_of(path)) for path in pure_files()} >= PURE


def test_protocol_code_is_pure() -> None:
    assert [line for path in pure_files() for line in impurities(path, parsed(path))] == []


@pytest.mark.parametrize("package", ["overlay", "ring", "ges", "sims"])
def test_what_is_heavy_is_imported_late(package: str) -> None:
    found = [
        f"{path} imports {name} at its top: import it in the function that needs it"
        for path in names_of(package)
        for name in imports(parsed(path), at_the_top=True)
        if name.split(".")[0] in HEAVY
    ]
    assert found == []


SIMULATE = "import sims.experiments.experiment as e; e.run(e.Experiment(nodes=3, seed=1))"


@pytest.mark.parametrize(
    ("missing", "program"),
    [
        (sorted(IMPURE & {"trio", "ssl", "socket", "asyncio"} | HEAVY), "import ring.node"),
        (sorted({"trio"} | HEAVY), SIMULATE),
    ],
    ids=["the ring without sockets", "the simulator without trio"],
)
def test_it_runs(missing: list[str], program: str) -> None:
    hide = f"import sys; sys.modules.update(dict.fromkeys({missing}))"
    command = [sys.executable, "-c", f"{hide}; {program}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# The rules themselves


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("overlay", "import ring.node"),
        ("ring", "from ges import client"),
        ("ring", "def late():\n    import sims.world"),
        ("ges", "from sims.errors import SimulationError"),
        ("sims", "if TYPE_CHECKING:\n    import spark"),
    ],
)
def test_an_upward_import_is_found(package: str, source: str) -> None:
    [line] = upward_imports(package, Path("x.py"), ast.parse(source))
    assert line.startswith("x.py imports ")
    assert line.endswith(
        f": {package} may import only {', '.join(LAYERS[: LAYERS.index(package) + 1])}"
    )


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
