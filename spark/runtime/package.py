"""chordal as one file that Spark hands to executors: they need the libraries, but no chordal.

Python imports from a zip archive as from a folder. Spark puts those it is given (``--py-files``,
artifacts of Spark Connect) on the path of every executor. So what runs there is always what the
driver has, and a cluster is set up once for all versions.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from spark.errors import PackError

PACKAGES = ("overlay", "ring", "ges", "sims", "spark")
ARCHIVE, JOB = "chordal.zip", "job.py"

_JOB = '''\
"""What spark-submit is given with chordal.zip: it runs the command that follows it."""

import atexit
import shutil
import sys
import tempfile
import zipfile

# The executors import from the archive; the driver also opens files in it.
for place in sys.path:
    if place.endswith("chordal.zip"):
        folder = tempfile.mkdtemp(prefix="chordal-job-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        zipfile.ZipFile(place).extractall(folder)
        sys.path.insert(0, folder)
        break

from ges.cli.main import main

main()
'''
# Without a date of its own each archive of the same code is the same, byte for byte.
_DATE = (1980, 1, 1, 0, 0, 0)


def is_handed_over() -> bool:
    """Tell whether the executors have an archive already: the caller gave it to Spark."""
    return any(Path(place).name == ARCHIVE for place in sys.path)


def write_archive(target: Path) -> Path:
    """Write chordal, as it is imported here, into the zip archive ``target``.

    Raises:
        PackError: It cannot be written, or this process itself runs from such an archive.
    """
    if not Path(__file__).is_file():
        raise PackError("chordal runs from an archive here, which cannot be packed again")
    try:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in _files():
                archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    except OSError as error:
        raise PackError(f"{target} cannot be written: {error.strerror}") from error
    return target


def write_job(folder: Path) -> tuple[Path, Path]:
    """Write what ``spark-submit`` needs into ``folder``: the archive, and the job to submit.

    Raises:
        PackError: It cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        job = folder / JOB
        job.write_text(_JOB)
    except OSError as error:
        raise PackError(f"{folder} cannot be written: {error.strerror}") from error
    return write_archive(folder / ARCHIVE), job


def _files() -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        found = find_spec(package)
        if found is None or found.origin is None:
            raise PackError(f"the package {package} is not to be found")
        root = Path(found.origin).parent
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                yield f"{package}/{path.relative_to(root).as_posix()}", path.read_bytes()
    # The command finds its parts by the entry points of the distribution, which is described in
    # METADATA where it is installed, and in PKG-INFO beside the sources of an editable one.
    about = metadata.distribution("chordal")
    described = about.read_text("METADATA") or about.read_text("PKG-INFO") or ""
    folder = f"chordal-{about.version}.dist-info"
    yield f"{folder}/METADATA", described.encode()
    yield f"{folder}/entry_points.txt", (about.read_text("entry_points.txt") or "").encode()
