from __future__ import annotations

import numpy as np
import pytest
from tests.rules.looks import scale, scales
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.modules import FrozenParameters as Frozen
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.frozen_parameters import ALL_OF_IT, FrozenParameters


def check(*, frozen: int = 90, judged: int = 80, untouched: int = 80) -> list[Finding]:
    seen = Frozen(
        step=2,
        root="Net",
        elements=100,
        frozen=frozen,
        judged=judged,
        untouched=untouched,
        modules=("body.0", "body.2"),
        location="model.py:3",
    )
    return FrozenParameters().check(window(seen, steps=10))


def test_fires_when_most_is_frozen_as_it_was_initialized() -> None:
    [finding] = check()
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert finding.layers == ("body.0", "body.2")
    assert finding.location == "model.py:3"
    assert "90 % of the parameters of Net" in finding.message


@pytest.mark.parametrize(
    "more",
    [{"untouched": 0}, {"untouched": 40}, {"frozen": 30, "judged": 30, "untouched": 30}],
    ids=["loaded", "partly loaded", "a small part"],
)
def test_stays_quiet(more: dict[str, int]) -> None:
    assert check(**more) == []


def test_a_smaller_part_is_enough_if_it_is_the_first_layer() -> None:
    part = Frozen(
        step=2,
        root="Model",
        elements=100,
        frozen=47,
        judged=40,
        untouched=40,
        modules=("0", "1"),
        location="model.py:3",
    )
    first = scales(0, [scale("0", 1.0), scale("2", 1.0)])
    rule = FrozenParameters()
    [finding] = rule.check(window(part, first, steps=10))
    assert "47 % of the parameters of Model are frozen (limit 25 %)" in finding.message
    assert rule.check(window(part, scales(0, [scale("2", 1.0), scale("0", 1.0)]), steps=10)) == []
    turns = np.arange(0, 10, 2)
    game = (
        loss(np.ones(5), of="gan.py:5", optimizers=("D",), steps=turns),
        loss(np.ones(5), of="gan.py:9", optimizers=("G",), steps=turns + 1),
    )
    assert rule.check(window(part, first, *game, steps=10)) == []


def test_what_cannot_be_told_is_not_judged() -> None:
    assert check(judged=0, untouched=0) == []


def test_a_model_without_frozen_parameters_is_not_its_concern() -> None:
    with pytest.raises(NotApplicable, match="is trained"):
        FrozenParameters().check(window(steps=10))
    with pytest.raises(NotEnoughData, match=r"needs 5 steps, saw 2"):
        FrozenParameters().check(window(steps=2))


def test_advice_for_models_of_keras_of_which_nothing_is_trained() -> None:
    of_keras = FrozenParameters.doc().fixes_for({"keras"})
    assert any(fix.startswith(ALL_OF_IT) for fix in of_keras)
    assert not check(frozen=90)[0].fixes[0].startswith(ALL_OF_IT)
