"""What a drill does: how many brokers and links it strikes in a round, how, and which. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ges.errors import DrillRefused
from overlay.rng import rng_for


class Means(StrEnum):
    """How a broker or a link is struck."""

    KILL = "kill"  #: a broker's process ends without a word
    PAUSE = "pause"  #: it stands still for a while
    CUT = "cut"  #: two brokers do not reach each other for a while


@dataclass(frozen=True, slots=True)
class Strike:
    """One thing that is to be done."""

    means: Means
    uid: str
    other: str = ""  #: the other end of a link that is cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A drill; times are seconds."""

    kill: int = 0  #: brokers in each round
    pause: int = 0
    cut: int = 0  #: links in each round
    rounds: int = 1
    at_once: int = 1  #: strikes at one moment, at most
    gap_s: float = 2.0  #: that the ring is whole before the next strike
    pause_s: float = 5.0
    cut_s: float = 5.0
    seed: int = 1  #: of what is struck

    @property
    def strikes(self) -> int:
        """How many there are in all."""
        return self.rounds * (self.kill + self.pause + self.cut)

    def steps(self) -> Iterator[tuple[int, tuple[Means, ...]]]:
        """Yield what is done at one moment, with the number of its round, from 1."""
        counts = {Means.KILL: self.kill, Means.PAUSE: self.pause, Means.CUT: self.cut}
        for number in range(1, self.rounds + 1):
            left = [means for means, count in counts.items() for _ in range(count)]
            rng_for(self.seed, "drill", "order", number).shuffle(left)
            while left:
                step, left = left[: self.at_once], left[self.at_once :]
                yield number, tuple(step)


def draw(
    step: Sequence[Means],
    rng: random.Random,
    brokers: Sequence[str],
    links: Sequence[tuple[str, str]],
) -> list[Strike]:
    """Draw whom a step befalls: no broker twice, and no link of a broker that is struck itself.

    Raises:
        DrillRefused: there are not as many brokers, or links between the others.
    """
    whole = [means for means in step if means is not Means.CUT]
    if len(whole) >= len(brokers):
        raise DrillRefused(f"{len(whole)} of {len(brokers)} brokers are to be struck at once")
    victims = rng.sample(sorted(brokers), len(whole))
    strikes = [Strike(means, uid) for means, uid in zip(whole, victims, strict=True)]
    struck = {strike.uid for strike in strikes}
    free = sorted(link for link in links if not struck.intersection(link))
    cuts = len(step) - len(whole)
    if cuts > len(free):
        raise DrillRefused(f"{cuts} links are to be cut, and {len(free)} could be")
    for link in rng.sample(free, cuts):
        here, there = link if rng.random() < 0.5 else link[::-1]
        strikes.append(Strike(Means.CUT, here, there))
    return strikes
