from __future__ import annotations

from pathlib import Path

import pytest
from tests.reader.compare.test_difference import at, stored

from mothtrap.reader.compare.data_differences import other_parts, random_states_agree


def test_the_part_of_a_batch_that_differs_is_named(tmp_path: Path) -> None:
    first = stored(tmp_path, "first")
    second = stored(tmp_path, "second", at(3, "digest:batch:loader 1.1", 7))
    assert other_parts(first, second) == [
        "9 of 12 batches differ",
        "only the second element of loader 1 differs in them",
    ]


@pytest.mark.parametrize(
    ("name", "start", "agree"),
    [
        ("digest:batch:loader 1.1", 3, True),
        ("digest:rng.torch", 3, False),
        ("digest:rng.torch", 9, True),
    ],
)
def test_states_that_are_drawn_from_are_compared_up_to_the_step(
    tmp_path: Path, name: str, start: int, agree: bool
) -> None:
    first, second = stored(tmp_path, "first"), stored(tmp_path, "second", at(start, name, 7))
    assert random_states_agree(first, second, 5) is agree


def test_a_generator_without_draws_does_not_count(tmp_path: Path) -> None:
    def change(_: int, numbers: dict[str, float]) -> None:
        numbers["digest:rng.python"] = 6

    first, second = stored(tmp_path, "first"), stored(tmp_path, "second", change)
    assert random_states_agree(first, second, 5)
