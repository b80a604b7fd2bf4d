from __future__ import annotations

import pytest
from tests.rules.weights import MADE, facts
from tests.rules.windows import OPTIMIZER, series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import OptimizerFacts, RoundedUpdates
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.update_lost_to_rounding import update_lost_to_rounding

BF16 = facts(weights=("bfloat16",), rate=1e-4)


def look(share: float, *, since: int = 2, rate: float = 1e-4, of: int = 1000) -> RoundedUpdates:
    return RoundedUpdates(
        step=since + 19,
        since=since,
        optimizer=OPTIMIZER,
        dtypes=("bfloat16",),
        elements=of,
        unchanged=round(share * of),
        learning_rate=rate,
        layers=("0.weight",),
    )


def check(
    *looks: RoundedUpdates, known: OptimizerFacts = BF16, rate: float = 1e-4
) -> list[Finding]:
    return update_lost_to_rounding().check(window(series("lr", [rate] * 30), known, *looks))


def test_fires_when_most_elements_stay() -> None:
    [finding] = check(look(0.88))
    assert (finding.severity, finding.step) == (Severity.ERROR, 2)
    assert (finding.layers, finding.location) == (("0.weight",), MADE)
    assert "after 20 steps" in finding.message


def test_warns_when_half_of_them_stay() -> None:
    [finding] = check(look(0.6), look(0.55, since=502))
    assert (finding.severity, finding.count) == (Severity.WARNING, 2)


@pytest.mark.parametrize(
    ("seen", "known", "rate"),
    [
        pytest.param(look(0.25), BF16, 1e-4, id="most arrive"),
        pytest.param(look(0.99, rate=0.0), BF16, 1e-4, id="a step at rate 0"),
        pytest.param(look(0.99, rate=1e-6), BF16, 1e-3, id="a rate that decayed"),
        pytest.param(look(0.99, of=20), BF16, 1e-4, id="a handful of elements"),
        pytest.param(look(0.99), facts(compensated=True), 1e-4, id="a compensation is kept"),
    ],
)
def test_stays_quiet(seen: RoundedUpdates, known: OptimizerFacts, rate: float) -> None:
    assert check(seen, known=known, rate=rate) == []


def test_does_not_apply_to_float32_weights() -> None:
    with pytest.raises(NotApplicable, match="16-bit"):
        check(known=facts())
    with pytest.raises(NotEnoughData):
        check()
    with pytest.raises(NotEnoughData):
        update_lost_to_rounding().check(window(steps=3))
