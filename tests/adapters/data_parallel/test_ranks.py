"""Weights of two data-parallel ranks are bit-identical with and without, by every trainer."""

from __future__ import annotations

import pytest

for _name in ("lightning.pytorch", "transformers", "accelerate"):
    pytest.importorskip(_name)

from tests.adapters.accelerate.loops import SETTINGS as LOOPS  # noqa: E402
from tests.adapters.data_parallel.ranks import compared  # noqa: E402
from tests.adapters.lightning.modules import SETTINGS as MODULES  # noqa: E402
from tests.adapters.transformers.training import SETTINGS as TRAININGS  # noqa: E402

STEPS = {
    "lightning": {"accumulation": 3, **dict.fromkeys(set(MODULES) - {"accumulation"}, 12)},
    "transformers": {"plain": 8, "accumulation": 2, "bf16": 4},
    "accelerate": {"plain": 8, "accumulation": 2, "bf16": 4},
}


def test_every_way_of_training_is_here() -> None:
    ways = dict(zip(STEPS, (MODULES, TRAININGS, LOOPS), strict=True))
    assert {name: set(kinds) for name, kinds in STEPS.items()} == {
        name: set(kinds) for name, kinds in ways.items()
    }


@pytest.mark.parametrize("trainer", STEPS)
def test_weights_of_both_ranks_are_bit_identical(trainer: str) -> None:
    steps = STEPS[trainer]
    for found in compared(trainer, list(steps)):
        assert found == {kind: (True, count) for kind, count in steps.items()}
