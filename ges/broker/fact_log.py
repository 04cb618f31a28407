"""What a broker writes to its log of what befalls it and those around it."""

from __future__ import annotations

from structlog.typing import FilteringBoundLogger as Log

from ges.gateways.losses import Severity
from ges.gateways.losses_part import GatewayLost
from ges.topology.uid_in_use import UidInUse
from ges.units.facts import (
    Addressed,
    LimitDiffers,
    RelocationBegun,
    RelocationEnded,
    TookOffice,
    Unaddressed,
)
from overlay.ids import short
from overlay.machine import Fact
from overlay.trace_schema import Incident, Verdict
from ring.facts import (
    Alone,
    Confirmed,
    Departed,
    Detoured,
    DetourEnded,
    JoinDelayed,
    Joined,
    JoinRejected,
    JoinWaits,
    LinkFailed,
    Refuted,
    Reincarnated,
    Rejoining,
    Suspected,
    Undecided,
)


def tell(log: Log, fact: Fact) -> None:
    """Log what a fact says, if it is for people."""
    match fact:
        case Joined(member, contact):
            log.info("joined", ring_id=member.ring_id, contact=short(contact or "nobody"))
        case JoinWaits(answers, why):
            waits = {"waits_for": why} if why else {}
            log.warning("not joined yet", seeds=dict(answers), **waits)
        case JoinDelayed(reason, retry_ns):
            log.debug("join delayed", why=reason, retry_in_s=round(retry_ns / 1e9, 2))
        case JoinRejected(reason):
            log.error("join rejected", why=reason)
        case Suspected(subject, reason):
            log.warning("suspected", peer=short(subject.uid), why=reason)
        case Confirmed(subject, witnesses):
            log.warning(
                "confirmed dead", peer=short(subject.uid), witnesses=[*map(short, witnesses)]
            )
        case LinkFailed(subject, witness):
            log.warning("link failed", peer=short(subject.uid), witness=short(witness))
        case Detoured(uid, path):
            log.info("going round a failed link", peer=short(uid), via=[*map(short, path[1:-1])])
        case DetourEnded(uid, restored):
            log.info("way round a failed link ended", peer=short(uid), restored=restored)
        case Undecided(subject):
            log.warning("cannot be reached, link or broker", peer=short(subject.uid))
        case Refuted(subject):
            log.info("lives after all", peer=short(subject.uid))
        case Departed(member):
            log.info("a neighbour left", peer=short(member.uid))
        case Rejoining(incarnation, reason):
            log.warning("joining anew", incarnation=incarnation, why=reason)
        case Reincarnated(member, holder):
            log.warning(
                "held for dead by another ring: merging",
                holder=short(holder),
                incarnation=member.incarnation,
            )
        case UidInUse(url):
            log.error(
                "another process uses this broker's uid, and the others go by that one; "
                "stop it, or give each an identity and a data directory of its own",
                told_by=url,
            )
        case Addressed(address, None):
            log.info("has an address", address=str(address))
        case Addressed(address, before):
            log.info("has another address", address=str(address), before=str(before))
        case Unaddressed(members, before):
            log.info(
                "waits for an address: its cluster is full; events come to it all the same",
                members=members,
                before=None if before is None else str(before),
            )
        case TookOffice(before, is_handover):
            log.info("steward of the cluster", before=short(before), handed_over=is_handover)
        case LimitDiffers(limit, given):
            log.warning(
                "the overlay has another limit of units, and that one counts; "
                "start all brokers with the same --unit-limit",
                limit=limit,
                given=given,
            )
        case RelocationBegun(names, place):
            log.info("its unit moves, to join another context", unit=names, ring_id=place)
        case RelocationEnded(names, is_there=True):
            start = f"start it with --unit {names}" if names else "start it without --unit"
            log.warning(f"its unit has moved; from now on {start}", unit=names)
        case RelocationEnded(names, is_there=False):
            log.warning("its unit moves no more, or it has lost it on the way", unit=names)
        case GatewayLost(level, (a, b), severity, left):
            say = {Severity.HARMLESS: log.debug, Severity.DEGRADED: log.info}
            told = say.get(severity, log.warning)
            where = {"a": a, "b": b, "unit_level": level}
            told("links between units lost", **where, kind=severity.value, left=left)
        case Alone():
            log.warning("alone: nobody can be reached; serving on, and knocking")
        case _:
            pass


def tell_incident(log: Log, incident: Incident) -> None:
    """Log how long a repair took."""
    if incident.verdict is Verdict.BROKER_FAILED:
        assert incident.repaired_ns is not None
        since = incident.suspected_ns or incident.confirmed_ns or incident.repaired_ns
        log.info(
            "ring repaired",
            peer=short(incident.subject),
            took_ms=round((incident.repaired_ns - since) / 1e6, 1),
            messages=incident.messages,
        )
