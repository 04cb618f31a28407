"""How far this broker may trust its own judgement.

A. Dadgar, J. Phillips, J. Currey, "Lifeguard: local health awareness for more accurate failure
detection", 2017: who runs slowly takes others for dead, so every broker keeps a score of signs that
it is slow itself, and waits longer for others while the score is high.
"""

from __future__ import annotations

from overlay.ids import Nanos

MAX_SCORE = 8  #: as in Lifeguard


class LocalHealth:
    """The score: 0 is healthy, and every point adds the normal wait once more.

    Worse: own timers run late, a suspicion of ours proves wrong, a witness does not answer (that
    one *and* the suspect are silent, so it may be us). Better: a heartbeat in time, a probe
    answered at once, a witness's answer.
    """

    __slots__ = ("score",)

    def __init__(self) -> None:
        self.score = 0

    def worse(self) -> None:
        """Count a sign that it is this broker that is slow."""
        self.score = min(self.score + 1, MAX_SCORE)

    def better(self) -> None:
        """Count a sign that this broker keeps up."""
        self.score = max(self.score - 1, 0)

    def stretch(self, wait: Nanos) -> Nanos:
        """Return how long a wait of ours is to be in this condition."""
        return wait * (1 + self.score)
