from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.facts.functions import TrainableIgnored as Seen
from mothtrap.core.findings import Severity
from mothtrap.rules.trainable_ignored import trainable_ignored


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"unfrozen": 90}, "90 % of the weights of model (limit 1 %) were made trainable"),
        ({"frozen": 90}, "were frozen after `compile`, and are still trained"),
    ],
)
def test_says_which_way(told: dict[str, int], message: str) -> None:
    one = Seen(step=30, model="model", elements=100, layers=("base",), location="a.py:7", **told)
    [finding] = trainable_ignored().check(window(one))
    assert (finding.severity, finding.location) == (Severity.WARNING, "a.py:7")
    assert message in finding.message
    assert "model.compile" in finding.fixes[0]


def test_a_small_part_is_nothing() -> None:
    assert not trainable_ignored().check(window(Seen(step=30, model="m", elements=500, frozen=2)))
