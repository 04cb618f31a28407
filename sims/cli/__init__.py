"""The ``chordal sim`` command. Each sub-command has a module.

Everything but click is imported inside the commands, so that ``chordal --help`` stays fast.

``main`` (the group, and the list of what can be run), ``run`` (a scenario, a story, the experiment
``crash``), ``scenario`` (plays one and tells of it), ``campaign`` (many seeds; the smallest),
``like`` (a drill beside its twin), ``plotting`` (draws either), ``explore`` (all orders in a small
ring), ``printed`` (what a run shows while it goes on, and its
result), ``options`` (what sub-commands share).
"""

from __future__ import annotations

from sims.cli.main import sim

__all__ = ["sim"]
