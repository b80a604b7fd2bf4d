from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import InputDistribution
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.steps import Mode
from mothtrap.rules.train_eval_shift import TrainEvalShift


def train(mean: float = 0.0, std: float = 1.0, **more) -> InputDistribution:
    options = {"step": 0, "module": "Net", "argument": "x", "rows": 32}
    return InputDistribution(mean=mean, std=std, **{**options, **more})


def evaluated(mean: float, std: float, **more) -> InputDistribution:
    options = {"step": 9, "mode": Mode.EVAL, "location": "eval.py:3"}
    return train(mean, std, **{**options, **more})


def check(*parts: InputDistribution) -> list[Finding]:
    return TrainEvalShift().check(window(*parts))


@pytest.mark.parametrize(
    ("mean", "std", "severity"),
    [
        (0.0, 6.0, Severity.WARNING),
        (0.0, 0.1, Severity.WARNING),
        (-5.5, 1.0, Severity.ERROR),
        (120.0, 60.0, Severity.ERROR),
        (0.0, 3.0, Severity.WARNING),
        (2.7, 1.0, Severity.WARNING),
    ],
)
def test_fires_on_another_scale_and_on_another_mean(
    mean: float, std: float, severity: Severity
) -> None:
    [finding] = check(train(), evaluated(mean, std))
    assert (finding.severity, finding.step, finding.mode) == (severity, 9, "eval")
    assert (finding.layers, finding.location) == (("Net",), "eval.py:3")


def test_a_series_that_goes_on_at_another_level_is_a_note() -> None:
    [finding] = check(train(), evaluated(2.0, 0.1, windows=True))
    assert finding.severity is Severity.INFO
    assert "windows of a series at another level" in finding.message
    assert [fix[:24] for fix in finding.fixes] == ["For a series with a tren"]
    for mean, std in ((120.0, 60.0), (0.0, 0.01), (0.0, 3.0)):  # another scale
        [finding] = check(train(), evaluated(mean, std, windows=True))
        assert finding.severity is not Severity.INFO
        assert not any(fix.startswith("For a series") for fix in finding.fixes)


def test_masked_training_rows_are_named() -> None:
    [finding] = check(train(std=0.3, zeros=0.9), evaluated(0.0, 1.0, zeros=0.0))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert "90 % of the values are 0 in training, and 0 % in evaluation" in finding.message
    assert [fix[:30] for fix in finding.fixes] == ["If values of training rows are"]
    [finding] = check(train(std=0.3, zeros=0.9), evaluated(0.0, 1.0, zeros=0.8))
    assert "are 0" not in finding.message


def test_noise_in_training_rows_is_named_if_another_scale_is_excluded() -> None:
    [finding] = check(train(0.5, 12.0), evaluated(0.51, 1.0))
    assert finding.step == 0
    assert "noise was added in training" in finding.message
    assert [fix[:25] for fix in finding.fixes] == ["If training rows get nois"]
    for mean, evaluated_mean in ((0.0, 0.0), (6.0, 0.5)):  # perhaps, or certainly, another scale
        [finding] = check(train(mean, 12.0), evaluated(evaluated_mean, 1.0))
        assert finding.fixes[0].startswith("Apply the same transformation")


@pytest.mark.parametrize(("mean", "std"), [(0.3, 1.1), (-1.3, 0.5), (0.0, 2.2)])
def test_quiet_on_the_same_scale(mean: float, std: float) -> None:
    assert check(train(), evaluated(mean, std)) == []


def test_batches_of_training_that_lie_apart_are_taken_together() -> None:
    assert check(train(-3, 0.2), train(3, 0.2), evaluated(0, 3)) == []


def test_an_evaluation_of_training_data_beside_it_does_not_hide_it() -> None:
    [finding] = check(train(), evaluated(0, 1), evaluated(50, 20))
    assert finding.severity is Severity.ERROR


def test_quiet_on_one_strange_evaluation_among_many() -> None:
    others = [evaluated(0, 1, step=step) for step in range(9)]
    assert check(train(), *others, evaluated(50, 20, step=9)) == []


def test_few_rows_count_together_within_a_step_or_not_at_all() -> None:
    small = [evaluated(9, 1, rows=1) for _ in range(15)]
    with pytest.raises(NotEnoughData, match="16 rows"):
        check(train(), *small)
    with pytest.raises(NotEnoughData, match="16 rows"):
        check(train(rows=15), evaluated(9, 1))
    [finding] = check(train(), *small, evaluated(9, 1, rows=1))
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(
    "other",
    [
        evaluated(900.0, 0.0),
        evaluated(9.0, 1.0, argument="y"),
        evaluated(9.0, 1.0, module="Net.decoder"),
        train(9.0, 1.0),
    ],
)
def test_does_not_compare_what_is_no_pair(other: InputDistribution) -> None:
    with pytest.raises(NotApplicable):
        check(train(0.0, 1.0), other)


def test_waits_for_inputs() -> None:
    with pytest.raises(NotEnoughData):
        TrainEvalShift().check(window(steps=4))


def test_thresholds() -> None:
    faulty = window(train(), evaluated(0, 6))
    assert TrainEvalShift(warning_ratio=7).check(faulty) == []
    moved = window(train(), evaluated(5.5, 1))
    assert TrainEvalShift(error_shift=6, warning_shift=6).check(moved) == []
    assert TrainEvalShift(share=0.6).check(window(train(), evaluated(0, 1), evaluated(0, 6))) == []
    with pytest.raises(NotEnoughData):
        TrainEvalShift(rows=33).check(faulty)


def test_one_evaluation_in_another_unit_is_a_warning() -> None:
    def seen(step: int, mode: Mode, std: float, rows: int) -> InputDistribution:
        return InputDistribution(
            step=step, mode=mode, module="model", argument="x", rows=rows, mean=std, std=std
        )

    usual = [seen(0, Mode.TRAIN, 0.5, 3600), *(seen(50, Mode.EVAL, 0.5, 64) for _ in range(5))]
    [found] = TrainEvalShift().check(window(*usual, seen(170, Mode.EVAL, 127.5, 800)))
    assert (found.severity, found.step) == (Severity.WARNING, 170)
    assert not TrainEvalShift().check(window(*usual, seen(170, Mode.EVAL, 127.5, 20)))
    assert not TrainEvalShift().check(window(*usual, seen(170, Mode.EVAL, 5.0, 800)))
