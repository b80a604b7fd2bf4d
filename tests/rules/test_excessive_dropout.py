from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import DropoutRate, Evaluation, TrainingMode
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.excessive_dropout import excessive_dropout


def mode(*rates: float, trains: bool = True, sleeping: tuple[str, ...] = ()) -> TrainingMode:
    names = tuple(f"drop{n}" for n in range(len(rates)))
    return TrainingMode(
        step=0,
        module="Net",
        module_type="Net",
        trains=trains,
        dropouts=names,
        rates=tuple(
            DropoutRate(name=name, rate=rate, location=f"model.py:{place}")
            for place, (name, rate) in enumerate(zip(names, rates, strict=True), start=1)
        ),
        sleeping=sleeping,
        location="model.py:9",
    )


def check(*modes: TrainingMode | Evaluation, **thresholds: float) -> list[Finding]:
    return excessive_dropout(**thresholds).check(window(*modes, steps=50))


def test_fires_on_the_highest_rate_at_the_line_of_its_dropout() -> None:
    [finding] = check(mode(0.1, 0.9, 0.95))
    assert (finding.severity, finding.step, finding.last_step) == (Severity.WARNING, 0, 49)
    assert (finding.layers, finding.location) == (("drop2", "drop1"), "model.py:3")
    assert "drop2 drops 95 % of its values (limit 85 %); 1 more above the limit" in finding.message


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_quiet_on_usual_rates(rate: float) -> None:
    assert check(mode(rate)) == []


def evaluations(*values: float, trained: float = 1.0) -> list[Evaluation]:
    return [
        Evaluation(
            step=10 * number,
            site="train.py:20",
            operation="cross_entropy",
            value=value,
            calls=1,
            rows=100,
            number=number,
            first=values[0],
            best=min(values),
            best_step=0,
            train_losses={"train.py:9": trained},
        )
        for number, value in enumerate(values)
    ]


def test_a_high_rate_counts_where_the_model_underfits() -> None:
    [finding] = check(mode(0.7), *evaluations(0.4, 0.4, 0.4))
    assert "drops 70 % of its values (limit 70 %)" in finding.message
    assert "loss without dropout is less than 1/1.3 of the training loss" in finding.message
    assert check(mode(0.6), *evaluations(0.1, 0.1, 0.1)) == []
    assert check(mode(0.7), *evaluations(0.4, 0.4)) == []
    assert check(mode(0.7), *evaluations(0.6, 0.9, 0.9)) == []
    assert check(mode(0.7), *evaluations(0.78, 0.76, 0.72)) != []  # 1.28 times as much in the first


def test_quiet_where_it_drops_nothing() -> None:
    assert check(mode(0.95, sleeping=("drop0",))) == []
    assert check(mode(0.95, trains=False)) == []


def test_only_the_latest_mode_counts() -> None:
    assert check(mode(0.95), mode(0.2)) == []


def test_the_limit_can_be_moved() -> None:
    assert check(mode(0.95), rate=0.99) == []


def test_says_what_is_missing() -> None:
    with pytest.raises(NotEnoughData):
        check()
    with pytest.raises(NotApplicable):
        check(TrainingMode(step=0, module="Net", module_type="Net", trains=True, norms=("bn",)))
