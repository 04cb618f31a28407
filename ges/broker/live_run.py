"""One life of a broker as a run of the trace schema."""

from __future__ import annotations

import time

from ges.broker.data_directory import Life
from overlay.ids import short
from overlay.release import software_version
from overlay.trace import Run, Source


def live_run(home: Life, profile: str) -> Run:
    """Return the run that begins now; ``profile`` is that of its ring."""
    return Run(
        run_id=f"live-{short(home.uid)}-{home.incarnation}",
        source=Source.LIVE,
        scenario="live",
        nodes=None,
        seed=None,
        profile=profile,
        version=software_version(),
        started_unix_ns=time.time_ns(),
        duration_ns=None,
        parameters="{}",
    )
