"""How many of what, in words."""

from __future__ import annotations

import pytest

from overlay.wording import counted


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 identities"), (1, "1 identity"), (2, "2 identities")]
)
def test_one_is_not_many(number: int, told: str) -> None:
    assert counted(number, "identity", "identities") == told
    assert counted(number, "link") == (f"{number} links" if number != 1 else "1 link")
