"""What all brokers saw of one step becomes one incident, and that becomes seconds."""

from __future__ import annotations

import math

from ges.drills import figures
from ges.drills.plan import Means
from ges.drills.rows import Joined, Place, Sighting, Struck
from ges.wire.drill_messages import Seen, Sight
from overlay.trace_schema import Deed, Incident, Verdict
from ring.invariants import ideal_pointers

SECOND = 10**9
RING = [Place(uid, 1, 100 * at, 3) for at, uid in enumerate("abcdef")]
DEATH = Struck(Means.KILL, "c", "", 10 * SECOND, None, 1000)


def saw(
    at_s: float, observer: str, what: Sight, uid: str = "c", witnesses: tuple[str, ...] = ()
) -> Sighting:
    return Sighting(round(at_s * SECOND), observer, Seen(0, 0, what, uid, 0, witnesses))


def repaired(at_s: float, uids: str) -> list[Sighting]:
    """Those take the pointers of the ring without c."""
    left = list("abdef")
    return [
        Sighting(round(at_s * SECOND), uid, Seen(0, 0, Sight.POINTERS, "", 0, (), *pointers))
        for uid in uids
        for pointers in [ideal_pointers(left, left.index(uid))]
    ]


def deed(struck: Struck, step: int = 1) -> Deed:
    return Deed(
        run_id="r",
        round=1,
        step=step,
        kind=struck.means.value,
        subject=struck.uid,
        other=struck.other or None,
        n=6,
        began_ns=struck.began_ns,
        ended_ns=struck.ended_ns,
        uncertainty_ns=struck.uncertainty_ns,
        clocks_ns=1000,
        rtt_ms=(),
    )


def measured(deeds: list[Deed], incidents: list[Incident]) -> dict[tuple[str, str], list[float]]:
    """Seconds of each phase, as far as a float tells them; infinite: it was not seen to end."""
    found = figures.measured(deeds, incidents)
    return {
        key: [round(value.seconds, 6) if value.is_over else math.inf for value in values]
        for key, values in found.items()
    }


def test_a_death_is_seen_first_by_one_and_repaired_by_the_last() -> None:
    joined = Joined(
        RING,
        [DEATH],
        [
            saw(10.9, "d", Sight.SUSPECTED),
            saw(10.8, "b", Sight.SUSPECTED),
            saw(11.0, "b", Sight.CONFIRMED, witnesses=("f",)),
            saw(11.0, "e", Sight.CHORD_LOST),
            *repaired(11.2, "bd"),
            *repaired(11.5, "ae"),
            saw(11.7, "e", Sight.CHORD_REPAIRED),
        ],
    )
    assert joined.chords_missing == []
    (row,) = joined.incidents("r", {"c": 17})
    assert (row.subject, row.n, row.degree, row.messages) == ("c", 6, 3, 17)
    assert (row.verdict, row.witnesses) == (Verdict.BROKER_FAILED, ("f",))
    found = measured([deed(DEATH)], [row])
    assert found["kill", "detection"] == [0.8]
    assert found["kill", "confirmation"] == [0.2]
    assert found["kill", "repair"] == [0.5]
    assert found["kill", "total"] == [1.5]
    assert found["kill", "chords"] == [1.7]


def test_a_ring_that_points_wrong_somewhere_is_not_whole() -> None:
    joined = Joined(RING, [DEATH], [saw(10.9, "d", Sight.SUSPECTED), *repaired(11.0, "abd")])
    (row,) = joined.incidents("r", {})
    assert row.repaired_ns is None
    assert measured([deed(DEATH)], [row])["kill", "total"] == [math.inf]


def test_a_link_that_is_cut_is_no_death() -> None:
    cut = Struck(Means.CUT, "a", "d", 5 * SECOND, 6 * SECOND, 0)
    joined = Joined(
        RING,
        [cut],
        [saw(5.1, "a", Sight.SUSPECTED, "d"), saw(5.2, "a", Sight.LINK_FAILED, "d")],
    )
    (row,) = joined.incidents("r", {})
    assert (row.verdict, row.failed_ns, row.degree) == (Verdict.LINK_FAILED, None, None)
    assert measured([deed(cut)], [row]) == {("cut", "detection"): [0.1]}


def test_what_was_noticed_after_the_next_step_is_not_of_this_one() -> None:
    pause = Struck(Means.PAUSE, "c", "", 1 * SECOND, 2 * SECOND, 0)
    later = Struck(Means.PAUSE, "c", "", 20 * SECOND, 25 * SECOND, 0)
    (row,) = Joined(RING, [later], [saw(20.9, "d", Sight.SUSPECTED)]).incidents("r", {})
    found = measured([deed(pause), deed(later, 2)], [row])
    assert found["pause", "detection"] == [math.inf, 0.9]


def test_who_has_come_since_has_no_row() -> None:
    joined = Joined(RING, [DEATH], [saw(10.9, "d", Sight.SUSPECTED, "z")])
    assert [row.subject for row in joined.incidents("r", {})] == ["c"]


def row_of(subject: str, suspected_s: float) -> Incident:
    """An incident as the file has it."""
    joined = Joined(RING, [], [saw(suspected_s, "a", Sight.SUSPECTED, subject)])
    return joined.incidents("r", {})[0]


def test_clocks_that_differ_may_show_an_effect_before_its_cause() -> None:
    pause = Struck(Means.PAUSE, "c", "", 5 * SECOND, 6 * SECOND, SECOND // 1000)
    early = row_of("c", 4.9995)
    found = measured([deed(pause)], [early])["pause", "detection"]
    assert found == [-0.0005]
    unseen = measured([deed(pause)], [row_of("c", 4.9)])
    assert unseen["pause", "detection"] == [math.inf]
