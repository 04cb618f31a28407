"""Stories of odd frames, thrown at whole brokers from false brokers and clients."""

from __future__ import annotations

import random

from overlay.rng import rng_for
from sims.experiments.service import Service
from sims.experiments.throwers import Quiet, throw
from sims.workloads.odd_frames import OddFrames
from sims.workloads.traffic import Flowing

RATE = 10.0  #: honest events a second of each publisher
SECONDS = 1.0  #: of throwing
HELD_S = 4.5  #: what is held is given up by then


def event_frames(seed: int, kind: type[OddFrames] = OddFrames) -> list[str]:
    """Odd frames are thrown at a ring: none ends a broker; the link that brings one pays alone."""
    rng = rng_for(seed, "stories", "event-frames")
    return thrown_at(Service.ring_of(rng.randint(3, 4), seed), rng, SECONDS, kind=kind)


def thrown_at(
    service: Service,
    rng: random.Random,
    seconds: float,
    throwers: int = 2,
    kind: type[OddFrames] = OddFrames,
) -> list[str]:
    """Throw frames at brokers whose clients want them all; returns who had to pay, or lost events.

    A broker that fails raises. An honest pair goes on meanwhile, and what is held comes later.
    """
    service.subscribe_everywhere()
    for uid in service.uids:
        curious = service.attach(uid, f"curious at {uid}", Quiet())
        curious.subscribe("#")
        curious.subscribe("odd/#", queue="group")
        curious.subscribe("$name/kitchen")
    for uid in rng.sample(service.uids, 2):
        service.publish(uid, Flowing(rate=RATE))
    service.run(3)
    findings = throw(service, seconds, throwers, kind)
    service.run(HELD_S)
    return findings + service.finish().findings
