"""What of a campaign has been done: a file with a line for each run.

A line is written whole, and at once, when its run is done. After Ctrl-C, ``kill -9`` or a loss of
power the file is whole but for its last line, which is dropped: that run is done again. A run that
could not be done is not done: what was in its way, such as a full disk, may be gone next time.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import msgspec

from overlay.errors import ConfigError
from sims.campaign.cells import Shown

NAME = "campaign.jsonl"


class Journal:
    """The file, open to be added to.

    Raises:
        ConfigError: it cannot be read or written, or is something else.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.done: dict[str, Shown] = {}
        if self.path.exists() and not self.path.is_file():
            raise ConfigError(f"{self.path} is no file; give another folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            whole = self._read(self.path.read_bytes()) if self.path.exists() else 0
            self._file = self.path.open("ab", buffering=0)
            self._file.truncate(whole)
        except OSError as error:
            raise self._unusable(error) from None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, shown: Shown) -> None:
        """Write down what a run showed.

        Raises:
            ConfigError: the disk is full, or the like.
        """
        line = msgspec.json.encode(shown) + b"\n"
        before = self.path.stat().st_size
        try:
            written = self._file.write(line)
        except OSError as error:
            raise self._unusable(error) from None
        if written != len(line):
            self._file.truncate(before)
            raise ConfigError(f"cannot use {self.path}: the disk is full; give another folder")
        self.done[shown.key] = shown

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _read(self, data: bytes) -> int:
        """Take all whole lines; returns how many bytes they are."""
        at = 0
        while (end := data.find(b"\n", at)) >= 0:
            try:
                shown = msgspec.json.decode(data[at:end], type=Shown)
            except msgspec.DecodeError as error:
                line = data.count(b"\n", 0, at) + 1
                raise ConfigError(
                    f"{self.path}, line {line}: {error}; move the file away to begin anew"
                ) from None
            if not shown.error:  # an earlier chordal wrote these down
                self.done[shown.key] = shown
            at = end + 1
        return at

    def _unusable(self, error: OSError) -> ConfigError:
        return ConfigError(f"cannot use {self.path}: {error.strerror}; give another folder")
