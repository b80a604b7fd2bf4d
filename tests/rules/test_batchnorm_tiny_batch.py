from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.evaluations import EvaluationNorms, NormBatches, TrainingMode
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.steps import Mode
from mothtrap.core.window import Series
from mothtrap.rules.batchnorm_tiny_batch import BatchnormTinyBatch


def batches(*, forwards: int = 16, single: int = 0, few: int = 0, samples: int = 32) -> NormBatches:
    return NormBatches(
        step=20,
        module="bn",
        forwards=forwards,
        single=single,
        few=few,
        samples=samples,
        location="model.py:4",
    )


def check(*parts: Fact | Series) -> list[Finding]:
    return BatchnormTinyBatch().check(window(*parts))


def test_one_sample_in_most_forwards_is_an_error() -> None:
    [finding] = check(batches(single=16, few=16, samples=1))
    assert finding.severity is Severity.ERROR
    assert (finding.step, finding.layers, finding.location) == (0, ("bn",), "model.py:4")
    assert "one sample in 16 of 16" in finding.message


def test_fewer_than_four_are_a_warning() -> None:
    [finding] = check(batches(single=2, few=12, samples=2))
    assert finding.severity is Severity.WARNING
    assert "fewer than 4 samples in 12 of 16" in finding.message


def test_one_sample_in_a_gan_is_a_warning() -> None:
    turns = np.arange(0, 40, 2)
    game = (
        loss(np.ones(20), of="gan.py:5", optimizers=("D",), steps=turns),
        loss(np.ones(20), of="gan.py:9", optimizers=("G",), steps=turns + 1),
    )
    [finding] = check(*game, batches(single=16, few=16, samples=1))
    assert finding.severity is Severity.WARNING


def test_a_small_last_batch_is_no_fault() -> None:
    assert check(batches(single=4, few=4)) == []


def test_the_latest_count_holds() -> None:
    assert check(batches(forwards=8, few=8, single=8), batches(forwards=80, few=8, single=8)) == []


def test_does_not_apply_without_batch_norms() -> None:
    mode = TrainingMode(step=0, module="Net", module_type="Net", trains=True, dropouts=("drop",))
    with pytest.raises(NotApplicable, match="no trained model has batch norms"):
        check(mode)


def test_cannot_judge_a_few_forwards() -> None:
    with pytest.raises(NotEnoughData, match="fewer than 8"):
        check(batches(forwards=4, single=4, few=4))
    with pytest.raises(NotEnoughData, match="was observed in training"):
        check()


def norms(momentum: float, last_rows: int, rows: int = 64, step: int = 20) -> EvaluationNorms:
    return EvaluationNorms(
        step=step,
        mode=Mode.EVAL,
        module="features.1",
        momentum=momentum,
        last_rows=last_rows,
        rows=rows,
        location="model.py:12",
    )


@pytest.mark.parametrize("momentum", [0.9, 0.99, 1.0])
def test_fires_where_evaluation_goes_by_a_last_batch_of_few_rows(momentum: float) -> None:
    found = BatchnormTinyBatch().check(window(norms(momentum, 2), norms(momentum, 2, step=40)))
    [finding] = found
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 20, 2)
    assert "2 rows instead of 64" in finding.message
    assert finding.fixes[0].startswith("Lower the momentum")


@pytest.mark.parametrize("healthy", [norms(0.99, 64), norms(0.5, 2), norms(0.99, 8)])
def test_quiet_where_running_statistics_are_worth_enough_rows(healthy: EvaluationNorms) -> None:
    with pytest.raises(NotEnoughData):
        BatchnormTinyBatch().check(window(healthy))
