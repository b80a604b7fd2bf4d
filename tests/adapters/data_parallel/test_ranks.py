"""Two data-parallel ranks get bit-identical weights with and without mothtrap, in every trainer."""

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
    **{
        name: {
            kind: 8 // settings.get("gradient_accumulation_steps", 1)
            for kind, settings in ways.items()
        }
        for name, ways in {"transformers": TRAININGS, "accelerate": LOOPS}.items()
    },
}
"""Steps of each rank by way of training; each is also trained by one process, elsewhere."""


def test_thirty_programs_are_compared() -> None:
    assert 2 * sum(map(len, STEPS.values())) >= 30


@pytest.mark.parametrize("trainer", STEPS)
def test_weights_of_both_ranks_are_bit_identical(trainer: str) -> None:
    steps = STEPS[trainer]
    for found in compared(trainer, list(steps)):
        assert found == {kind: (True, count) for kind, count in steps.items()}
