"""What the demo measures: each step's numbers, and the line that tells them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """An overlay's authority and the identities issued from it."""

    brokers: int
    clients: int

    def __str__(self) -> str:
        return f"an authority, and from it identities for {self.brokers} brokers and a client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Formed:
    """A ring that brokers formed by themselves."""

    brokers: int
    whole_s: float  #: from the start of the first process to the end of the check
    at_rest_s: float  #: ... until no link was left that only the joins had needed

    def __str__(self) -> str:
        return (
            f"{self.brokers} processes started at once, each with the list of all; 'chordal ring "
            f"--check' says whole after {self.whole_s:.1f} s; all links at rest after "
            f"{self.at_rest_s:.1f} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """Events from every broker that reached a subscriber at every broker once each, in order."""

    brokers: int
    events: int
    deliveries: int
    seconds: float  #: from the first publish to the last delivery
    forwarded_per_event: float  #: messages between brokers, by their own counters
    ciphers: tuple[str, ...]  #: of the links between brokers; empty for normal events

    def __str__(self) -> str:
        ciphers = f", {' and '.join(self.ciphers)}" if self.ciphers else ""
        return (
            f"{self.events:,} from {self.brokers} brokers, each once and in order at "
            f"{self.brokers} subscribers: {self.deliveries / self.seconds:,.0f} deliveries/s, "
            f"{self.forwarded_per_event:.2f} messages per event (n-1 = {self.brokers - 1})"
            f"{ciphers}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Events that some brokers want: who of the others saw any, by their own counters."""

    brokers: int
    wanting: int  #: brokers with a subscriber and a publisher
    events: int
    relays: int  #: others that were on the way: they passed on all that came to them
    unaware: int  #: others that saw none

    def __str__(self) -> str:
        relayed = f", {self.relays} passed them on as relays" if self.relays else ""
        return (
            f"{self.events:,} for subscribers at {self.wanting} of {self.brokers} brokers; of the "
            f"other {self.brokers - self.wanting}, {self.unaware} saw none of them{relayed}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustered:
    """Clusters that brokers formed by themselves, and events that two of them want."""

    clusters: int
    formed_s: float  #: from the start of the first process
    wanted: Wanted

    def __str__(self) -> str:
        return (
            f"{self.wanted.brokers} brokers formed {self.clusters} clusters in "
            f"{self.formed_s:.1f} s; {self.wanted}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What becomes of a secure event published over a hop that is not."""

    reason: str

    def __str__(self) -> str:
        return f"a secure event is refused: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """A ring that lost a broker to ``kill -9``."""

    survivors: int
    observers: int  #: brokers that recorded the incident
    confirmed_s: float  #: in the traces, from suspicion to confirmation, the slowest
    repaired_s: float  #: in the traces, from suspicion to the repaired pointers, the slowest
    seen_whole_s: float  #: from outside, from the kill to the end of the first walk that was whole
    messages: int  #: sent on account of the incident, by all observers

    def __str__(self) -> str:
        return (
            f"by the traces of {self.observers} neighbours confirmed {_ms(self.confirmed_s)}, "
            f"repaired {_ms(self.repaired_s)} after the suspicion, with {self.messages} messages; "
            f"from outside the ring of {self.survivors} was whole {_ms(self.seen_whole_s)} after "
            "the kill"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Brokers that left the ring when told to."""

    brokers: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.brokers} brokers left the ring within {self.seconds:.1f} s of SIGTERM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Churned:
    """Simulated brokers that came and went while events flowed."""

    brokers: int
    virtual_s: float  #: how long it went on, in virtual time
    died: int
    joined: int
    deliveries: int
    once: int  #: those of them that came once, and in their publisher's order
    lost: int  #: events that did not come to a subscriber that was owed them
    longest_s: float  #: from publisher to subscriber
    repaired_s: float | None  #: from a death until the ring was whole, the slowest; None: none died
    seconds: float  #: of real time

    def __str__(self) -> str:
        healed = "" if self.repaired_s is None else f"whole {_ms(self.repaired_s)} after a death; "
        each = "each" if self.once == self.deliveries else f"{self.once:,} of them"
        return (
            f"{self.virtual_s:.0f} virtual seconds of {self.brokers} simulated brokers, of which "
            f"{self.died} died and {self.joined} joined: {healed}{self.deliveries:,} deliveries, "
            f"{each} once and in order, {self.lost} lost, at most {self.longest_s:.1f} s under way "
            f"({self.seconds:.0f} s of real time)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Simulated rings, spread over Spark's executors."""

    nodes: tuple[int, ...]
    runs: int
    seconds: float

    def __str__(self) -> str:
        sizes = ", ".join(f"{n:,}" for n in self.nodes)
        return f"rings of {sizes} brokers simulated by Spark's executors in {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """What Spark says of the growth of recovery with the size of the ring."""

    crashes: int
    recovery_time: str
    messages: str
    report: str

    def __str__(self) -> str:
        return (
            f"{self.crashes} simulated crashes; recovery time: {self.recovery_time}; "
            f"messages per crash: {self.messages}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All of it."""

    identities: Issued
    ring: Formed
    normal: Exchanged
    wanted: Wanted
    secure: Exchanged
    refusal: Refused
    repair: Repaired
    after: Exchanged
    shutdown: Left
    clusters: Clustered
    churn: Churned
    sweep: Swept
    analysis: Analysed

    def __str__(self) -> str:
        events = sum(part.events for part in (self.normal, self.wanted, self.secure, self.after))
        return (
            f"{self.ring.brokers} brokers formed a ring by themselves, carried {events:,} events "
            f"exactly once and in order, and repaired it {_ms(self.repair.seen_whole_s)} after a "
            f"kill -9; simulated recovery time: {self.analysis.recovery_time}"
        )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
