"""Hostile strangers in stories: ``python -m benchmarks.campaigns.strangers`` in short."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.campaigns.strangers import STORIES, play

SCALE = 0.1

pytestmark = [pytest.mark.live, pytest.mark.soak]


@pytest.mark.parametrize("name", STORIES)
async def test_what_they_try_does_not_come_about(tmp_path: Path, name: str) -> None:
    figures = await play(tmp_path, name, SCALE)
    assert [str(figure) for figure in figures if not figure.is_met] == []
    assert figures
