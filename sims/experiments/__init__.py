"""One run, from settings to rows.

``experiment`` (settings, and the run), ``summary`` (what it came to, for people).
"""

from __future__ import annotations

from sims.experiments.experiment import Experiment, RunResult, run

__all__ = ["Experiment", "RunResult", "run"]
