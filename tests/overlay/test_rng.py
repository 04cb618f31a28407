"""Named random streams: the same in every process, and independent of one another."""

from __future__ import annotations

import subprocess
import sys

from overlay.rng import rng_for

DRAW = "from overlay.rng import rng_for; print([rng_for(7, 'a', 1).random() for _ in range(3)])"


def in_a_process_with(hash_seed: str) -> str:
    command = [sys.executable, "-c", DRAW]
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_stream_is_the_same_in_every_process() -> None:
    here = [rng_for(7, "a", 1).random() for _ in range(3)]
    assert in_a_process_with("1") == in_a_process_with("2") == f"{here}\n"


def test_each_name_has_a_stream_of_its_own() -> None:
    names: list[tuple[object, ...]] = [(), ("a",), ("b",), ("a", 1), ("a", 2), ("a", "b")]
    first = {rng_for(7, *name).random() for name in names}
    assert len(first) == len(names)
    assert rng_for(8, "a").random() not in first


def test_a_draw_in_one_stream_does_not_shift_another() -> None:
    alone = rng_for(7, "a").random()
    other, stream = rng_for(7, "b"), rng_for(7, "a")
    other.random()
    assert stream.random() == alone


def test_a_seed_may_be_text() -> None:
    assert rng_for("7", "a").random() == rng_for(7, "a").random()
    assert rng_for("x").random() != rng_for("y").random()
