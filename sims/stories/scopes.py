"""Small scopes, explored in many orders."""

from __future__ import annotations

from sims.explore.explorer import Explorer

STATES = 1500  #: looked at in each scope


def scopes(seed: int) -> list[str]:
    """Small scopes are explored in many orders; they have no seeds, so one time is enough."""
    if seed > 1:
        return []
    for name, brokers, delays in (
        ("cut", 4, 1),
        ("cut-and-crash", 6, 0),
        ("crash-unseen", 5, 0),
        ("join-crash", 4, 0),
        ("two-joins", 4, 0),
        ("mutual-suspicion", 4, 0),
        ("crash-of-tester", 4, 0),
    ):
        report = Explorer(name, brokers=brokers, delays=delays).search(STATES)
        if report.findings:
            return [f"{report.findings[0]}: {report.replay}"]
    return []
