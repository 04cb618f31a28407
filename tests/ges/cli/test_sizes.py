"""Sizes as people write them."""

from __future__ import annotations

import click
import pytest

from ges.cli.sizes import size


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("256M", 256 * 2**20),
        ("256MiB", 256 * 2**20),
        ("64mb", 64 * 2**20),
        ("1.5G", 3 * 2**29),
        (" 20000 K ", 20000 * 2**10),
        ("16777216", 2**24),
    ],
)
def test_sizes(text: str, wanted: int) -> None:
    assert size(text) == wanted


@pytest.mark.parametrize("text", ["", "M", "-1M", "1T", "1 2M", "nan", "1e9", "256Mi b"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write 64M, 256M"):
        size(text)
