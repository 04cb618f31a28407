"""What an edge of the connectivity graph costs.

The papers give each edge the sum of the levels of its ends: c(i, j) = i + j (Grid Event Service
protocols, section 3.2, table 1). So an edge inside a cluster costs nothing, and one hop is as good
as ten. Here that sum counts in milliseconds, and the measured cost of the link is added. Example:
an edge between a broker (level 0) and another cluster (level 1) over a link of 0.4 ms costs about
1.4 ms.

The measured cost is told in *buckets*, each 1.5 times the one before. Bucket 0 is one hop of 50 us.
A bucket is kept while the cost is hardly outside it, so that measurements that waver tell nobody
anything. All bucket costs are whole numbers, so all brokers reckon with the same ones.
"""

from __future__ import annotations

from bisect import bisect_left

from overlay.ids import Nanos
from overlay.multigraph.cost import HOP_NS, MAX_COST_NS

LEVEL_NS: Nanos = 1_000_000  #: of each level in the matrix
MARGIN = 4  #: a cost outside its bucket by less than 1 / MARGIN keeps the bucket


def matrix(i: int, j: int) -> int:
    """Return c(i, j) of the papers' table 1."""
    return i + j


def _buckets() -> tuple[Nanos, ...]:
    costs = [HOP_NS]
    while costs[-1] < MAX_COST_NS:
        costs.append(costs[-1] * 3 // 2)
    return tuple(costs)


BUCKETS_NS = _buckets()  #: what a link of each bucket costs, in nanoseconds
LAST_BUCKET = len(BUCKETS_NS) - 1


def bucket_of(cost_ns: Nanos, held: int | None = None) -> int:
    """Return the bucket of a measured cost; ``held`` is the one told last, if any.

    A cost is never told lower than it is, but for the margin of a held bucket.
    """
    exact = min(bisect_left(BUCKETS_NS, cost_ns), LAST_BUCKET)
    if held is None or exact == held or not 0 <= held <= LAST_BUCKET:
        return exact
    high = BUCKETS_NS[held]
    low = BUCKETS_NS[held - 1] if held else 0
    if low * (MARGIN - 1) <= cost_ns * MARGIN <= high * (MARGIN + 1):
        return held
    return exact


def edge_ns(i: int, j: int, bucket: int) -> Nanos:
    """Return the cost of an edge between nodes of level ``i`` and ``j``, in nanoseconds."""
    return matrix(i, j) * LEVEL_NS + BUCKETS_NS[bucket]
