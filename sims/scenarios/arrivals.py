"""Who comes and who goes: each churn model of a scenario file, put on a stage's schedule."""

from __future__ import annotations

import random

from sims.scenarios.deeds import Deeds, spread_out
from sims.scenarios.inputs import Inputs
from sims.scenarios.laws import Sessions
from sims.scenarios.schema import (
    Churn,
    FlashCrowd,
    PoissonArrivals,
    ReplayedSessions,
    SessionChurn,
)
from sims.scenarios.sessions import Session, sessions_in


def schedule(churn: Churn, number: int, deeds: Deeds, inputs: Inputs) -> None:
    """Put a churn model on the schedule; ``inputs`` has the file that it names.

    Raises:
        ConfigError: the model makes no sense, or its file does not.
    """
    rng = deeds.rng("churn", number)
    match churn:
        case SessionChurn():
            sessions = Sessions(churn.law, churn.mean_s, churn.shape)
            deeds.at(churn.at_s, _meet, deeds, rng, churn, sessions)
        case PoissonArrivals():
            _next_arrival(deeds, rng, churn, churn.at_s)
        case ReplayedSessions():
            content, path = inputs.content(churn.file), inputs.path(churn.file)
            _replay(deeds, rng, churn, sessions_in(content, path))
        case FlashCrowd():
            deeds.at(churn.at_s, _crowd, deeds, rng, churn)


# ── sessions ──────────────────────────────────────────────────────────────────────────────────


def _meet(deeds: Deeds, rng: random.Random, churn: SessionChurn, sessions: Sessions) -> None:
    """All that are there are in the middle of a session: the first minute is like all others."""
    for uid in sorted(deeds.stage.alive):
        deeds.after(sessions.draw_residual(rng), _end, deeds, rng, churn, sessions, uid)


def _end(
    deeds: Deeds, rng: random.Random, churn: SessionChurn, sessions: Sessions, uid: str
) -> None:
    if deeds.is_over:
        return
    leaves = rng.random() < churn.leave_share
    went = deeds.leave(uid) if leaves else deeds.crash(uid, churn.crash_mode)
    if not went and deeds.is_alive(uid):  # the last of all stays for another session
        deeds.after(sessions.draw(rng), _end, deeds, rng, churn, sessions, uid)
    elif churn.replace:
        newcomer = deeds.join(rng)
        if newcomer is not None:
            deeds.after(sessions.draw(rng), _end, deeds, rng, churn, sessions, newcomer)


# ── arrivals ──────────────────────────────────────────────────────────────────────────────────


def _next_arrival(deeds: Deeds, rng: random.Random, churn: PoissonArrivals, since: float) -> None:
    time = since + rng.expovariate(churn.per_minute / 60)
    deeds.at(time, _arrive, deeds, rng, churn, time)


def _arrive(deeds: Deeds, rng: random.Random, churn: PoissonArrivals, time: float) -> None:
    if deeds.is_over:
        return
    deeds.join(rng)
    _next_arrival(deeds, rng, churn, time)


def _crowd(deeds: Deeds, rng: random.Random, churn: FlashCrowd) -> None:
    count = churn.count or len(deeds.stage.alive)
    for time in spread_out(rng, count, churn.at_s, churn.over_s):
        deeds.at(time, deeds.join, rng, churn.contacts)


# ── a file ────────────────────────────────────────────────────────────────────────────────────


def _replay(
    deeds: Deeds, rng: random.Random, churn: ReplayedSessions, sessions: list[Session]
) -> None:
    """Names of the file become brokers: those there at its beginning are the ring's first."""
    uids: dict[str, str] = {}
    first = [session for session in sessions if session.start_s == 0]
    for session, uid in zip(first, sorted(deeds.stage.alive), strict=False):
        uids[session.name] = uid
    for session in sessions:
        if session.start_s > 0 or session.name not in uids:
            deeds.at(session.start_s / churn.speed, _come, deeds, rng, uids, session)
        if session.end_s is not None:
            deeds.at(session.end_s / churn.speed, _go, deeds, churn, uids, session)


def _come(deeds: Deeds, rng: random.Random, uids: dict[str, str], session: Session) -> None:
    known = uids.get(session.name)
    if known is not None:
        deeds.back(known, rng)
    elif (uid := deeds.join(rng)) is not None:
        uids[session.name] = uid


def _go(deeds: Deeds, churn: ReplayedSessions, uids: dict[str, str], session: Session) -> None:
    uid = uids.get(session.name)
    if uid is not None:
        deeds.crash(uid, churn.crash_mode)
