"""Where a data set is: a folder that this process sees, or a URL that only Spark and Arrow open.

``/data/run7`` is a folder. ``hdfs://name/run7``, ``s3a://bucket/run7`` and ``file:///data/run7``
are URLs: the driver hands them to Spark and opens nothing itself, so they may name what only the
cluster can reach.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark.errors import DatasetError

if TYPE_CHECKING:
    from pyarrow import fs

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/")
_LOCAL = re.compile(r"file:(//)?(?=/)")


@dataclass(frozen=True, slots=True)
class Place:
    """A data set's folder; ``path`` is None where it is a URL."""

    text: str  #: as the user wrote it, without a slash at its end
    path: Path | None

    def __str__(self) -> str:
        return self.text

    @property
    def url(self) -> str:
        """The place as a URL."""
        return self.text if self.path is None else f"file://{self.path.resolve()}"

    def address(self, *parts: str) -> str:
        """Return what is inside the place as Spark takes it, with nothing left to expand."""
        return re.sub(r"([\[\]{}*?\\])", r"\\\1", "/".join((self.url, *parts)))

    def file_system(self) -> tuple[fs.FileSystem, str]:
        """Return Arrow's file system for the place, and the place's path there.

        Raises:
            DatasetError: Arrow knows no such file system.
        """
        import pyarrow as pa
        from pyarrow import fs

        url = self.url
        if found := _LOCAL.match(url):
            return fs.LocalFileSystem(), url[found.end() :]
        try:
            system, root = fs.FileSystem.from_uri(re.sub(r"^s3[an]:", "s3:", url))
        except (pa.ArrowException, OSError) as error:
            raise DatasetError(f"{self.text} cannot be opened by Arrow: {error}") from error
        return system, str(root)


def place(text: str) -> Place:
    """Return the place that ``text`` names: a path, or a URL such as ``hdfs://name/data``."""
    kept = text.rstrip("/") or "/"
    return Place(kept, None) if _URL.match(text) else Place(kept, Path(text))
