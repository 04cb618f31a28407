"""Clients that move: each goes to another broker now and then, of its own will."""

from __future__ import annotations

import random

from sims.scenarios.deeds import Deed, Deeds
from sims.scenarios.schema import Workload
from sims.scenarios.whole_stage import WholeStage
from sims.world.clients import SimulatedClient


def roam(stage: WholeStage, workload: Workload, deeds: Deeds) -> None:
    """Let a share of the clients move, publishers and subscribers alike."""
    if workload.roam_s is None:
        return
    rng, clients = deeds.rng("workload", "roaming"), stage.clients
    for client in rng.sample(clients, round(workload.roam_share * len(clients))):
        own = deeds.rng("workload", "roaming", client.name)
        deeds.after(
            own.expovariate(1 / workload.roam_s), _move, stage, workload, deeds, own, client
        )


def _move(
    stage: WholeStage,
    workload: Workload,
    deeds: Deeds,
    rng: random.Random,
    client: SimulatedClient,
) -> None:
    assert workload.roam_s is not None
    if deeds.is_over:
        return
    here, members = client.state.broker_uid, stage.in_order
    others = [uid for uid in members if uid != here]
    if client.connection is not None and others:
        there = rng.choice(others)
        deeds.note(Deed.MOVE, here, there)
        client.step(client.move, stage.brokers[there].url)
    deeds.after(rng.expovariate(1 / workload.roam_s), _move, stage, workload, deeds, rng, client)
