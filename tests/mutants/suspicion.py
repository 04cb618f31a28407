"""Broken rules of heartbeats, suspicion and witnesses."""

from __future__ import annotations

from typing import Any

from ring.detection.detector import Detector
from ring.detection.local_health import LocalHealth
from ring.detection.suspicions import Suspicions
from ring.detection.witness import WitnessTests
from ring.wire.messages import Member, Tested
from tests.mutants.mutant import Chapter, Method, around, nothing

SUSPICION = Chapter(first="lives")


SUSPICION.add("no-heartbeats", "nobody sends heartbeats", (Detector, "on_heartbeat_due", nothing))
SUSPICION.add(
    "never-suspects", "silence is no reason for suspicion", (Detector, "on_silent", nothing)
)
SUSPICION.add(
    "no-self-doubt",
    "a broker that stood still holds those for silent whom it did not listen to",
    (Detector, "forgive_pause", nothing),
)
SUSPICION.add(
    "suspicion-is-death",
    "nobody is asked to test a suspected neighbour",
    (Suspicions, "_ask", lambda self, case: (case.subject, ())),
)


def _one_witness(original: Method) -> Method:
    def ask(self: Suspicions, case: Any) -> Any:  # noqa: ANN401
        return (case.subject, tuple(case.failed)) if case.asked else original(self, case)

    return ask


SUSPICION.add(
    "one-round-of-witnesses",
    "when a witness does not answer, no other one is asked in its place",
    around(Suspicions, "_ask", _one_witness),
)


def _led_for_ever(original: Method) -> Method:
    def ask(self: Suspicions, case: Any) -> Any:  # noqa: ANN401
        return None if case.led_by is not None else original(self, case)

    return ask


SUSPICION.add(
    "leader-trusted",
    "who waits for the word of another one that asks waits for ever",
    around(Suspicions, "_ask", _led_for_ever),
)
SUSPICION.add(
    "no-refutation",
    "a sign of life does not clear a suspicion",
    (Suspicions, "on_heard", nothing),
)
SUSPICION.add(
    "answer-ignored",
    "what the witness answers is not heard",
    (Suspicions, "on_tested", nothing),
)


def _answer(*, alive: bool) -> Method:
    def begin(self: WitnessTests, asker: str, subject: Member, *, is_dead: bool) -> None:
        self._core.send(asker, Tested(subject, alive), subject.uid)

    return begin


SUSPICION.add(
    "witness-says-alive",
    "a witness answers that the subject lives, without a test",
    (WitnessTests, "begin", _answer(alive=True)),
)
SUSPICION.add(
    "witness-says-dead",
    "a witness answers that the subject is dead, without a test",
    (WitnessTests, "begin", _answer(alive=False)),
)
SUSPICION.add(
    "witness-silent",
    "a witness does not test and does not answer",
    (WitnessTests, "begin", nothing),
)
SUSPICION.add(
    "test-without-end",
    "a witness waits for ever for the subject's answer",
    (WitnessTests, "on_due", nothing),
    (WitnessTests, "on_failed", nothing),
)


def _as_last(original: Method) -> Method:
    def probe(self: Detector, uid: str, watch: Any, about: str | None) -> None:  # noqa: ANN401
        watch.probes = max(watch.probes, self._core.config.probes - 1)
        original(self, uid, watch, about)

    return probe


def _deaf_to_oneself(self: LocalHealth) -> None:
    self.score = 0


SUSPICION.add(
    "no-local-health",
    "a broker that runs slowly waits no longer for others than one that does not",
    (LocalHealth, "worse", _deaf_to_oneself),
)
SUSPICION.add(
    "seconds-not-watched",
    "the silence of links that no heartbeats go over is never noticed",
    (Detector, "_draw_idle", lambda self: 10**15),
)
SUSPICION.add(
    "suspects-at-once",
    "an overdue neighbour is suspected without a ping",
    around(Detector, "_probe", _as_last),
)
