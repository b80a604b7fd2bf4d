from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import IndicesShared, InputDistribution, RowsShared, SplitDrawn
from mothtrap.core.facts.evaluations import EvaluationPhase, LossRowsShared
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.workers import Resumed
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.packed import pack
from mothtrap.core.steps import Mode
from mothtrap.rules.train_eval_overlap import TrainEvalOverlap


def rows(shared: int, eval_rows: int = 200, **more) -> RowsShared:
    options = {
        "step": 40,
        "mode": Mode.EVAL,
        "module": "Net",
        "argument": "x",
        "source": "calls at eval.py:3",
        "train_rows": 800,
        "location": "eval.py:3",
    }
    return RowsShared(shared=shared, eval_rows=eval_rows, **{**options, **more})


def indices(shared: int, eval_samples: int = 200, train_samples: int = 800) -> IndicesShared:
    return IndicesShared(
        step=25,
        train_loader="loader 1",
        eval_loader="loader 2",
        train_samples=train_samples,
        eval_samples=eval_samples,
        shared=shared,
        location="eval.py:5",
    )


def check(*parts: RowsShared | IndicesShared | EvaluationPhase) -> list[Finding]:
    return TrainEvalOverlap().check(window(*parts))


@pytest.mark.parametrize("shared", [10, 40, 180])
def test_fires_when_part_of_the_rows_was_trained_on(shared: int) -> None:
    [finding] = check(rows(shared))
    assert (finding.severity, finding.step, finding.location) == (Severity.ERROR, 40, "eval.py:3")
    assert finding.mode == "eval"


def test_begins_at_the_first_evaluation_however_late_the_rule_is_evaluated() -> None:
    later = [rows(0, step=20), rows(40, step=40), rows(60, step=80)]
    [finding] = check(*later)
    assert (finding.step, finding.evidence["share"]) == (40, 0.3)


@pytest.mark.parametrize(
    "healthy",
    [
        rows(0),
        rows(9),
        rows(4, 40),
        rows(60, expected_share=0.05),
        rows(199, expected_share=0.9, train_rows=200),
    ],
)
def test_quiet_on_few_rows_and_on_data_with_equal_rows(healthy: RowsShared) -> None:
    assert [f for f in check(healthy) if f.severity is not Severity.INFO] == []


def test_the_training_data_themselves_are_a_note() -> None:
    [finding] = check(rows(790, 800))
    assert finding.severity is Severity.INFO
    assert "the evaluation data are the training data" in finding.message


def test_a_part_of_the_training_data_is_a_warning_where_nothing_else_is_evaluated() -> None:
    [finding] = check(rows(200))
    assert finding.severity is Severity.WARNING
    other = rows(0, source="calls at eval.py:9", location="eval.py:9")
    [finding] = check(rows(200), other)
    assert finding.severity is Severity.INFO


def test_a_picture_of_one_batch_of_training_is_a_note() -> None:
    def phase(**more) -> EvaluationPhase:
        fields = {"step": 40, "module": "Net", "module_type": "Net", "trains": True, "number": 0}
        return EvaluationPhase(**{**fields, "steps": 12, "forwards": 1, **more})

    [finding] = check(rows(200), phase())
    assert finding.severity is Severity.INFO
    for measured in (phase(forwards=2), phase(labelled=1), phase(module="Other")):
        [finding] = check(rows(200), measured)
        assert finding.severity is Severity.WARNING


def test_fires_when_two_loaders_draw_the_same_samples() -> None:
    [finding] = check(indices(50))
    assert (finding.severity, finding.step, finding.location) == (Severity.ERROR, 25, "eval.py:5")
    [finding] = check(indices(200))
    assert finding.severity is Severity.ERROR
    assert check(indices(0)) == []


def test_a_loader_of_the_training_data_is_a_note() -> None:
    [finding] = check(indices(800, 800))
    assert finding.severity is Severity.INFO
    [finding] = check(indices(200), rows(0, source="loader 3"))
    assert finding.severity is Severity.INFO


def test_one_loader_is_told_of_once() -> None:
    [finding] = check(indices(50), rows(50, source="loader 2"))
    assert "loader 2 (evaluation) shares 50" in finding.message


def test_waits_for_an_evaluation() -> None:
    with pytest.raises(NotEnoughData):
        TrainEvalOverlap().check(window(steps=9))


def test_thresholds() -> None:
    faulty = window(rows(20))
    assert TrainEvalOverlap(rows=21).check(faulty) == []
    assert TrainEvalOverlap(low_share=0.2).check(faulty) == []
    assert TrainEvalOverlap(chance_ratio=20).check(window(rows(20, expected_share=0.008))) == []
    assert TrainEvalOverlap(samples=51).check(window(indices(50))) == []
    [finding] = TrainEvalOverlap(high_share=0.1).check(faulty)
    assert finding.severity is Severity.WARNING


def test_copies_are_not_explained_by_equal_rows() -> None:
    copied = rows(20, expected_share=1.0, copied=True, share_of_all=0.4)
    [finding] = check(copied)
    assert finding.severity is Severity.ERROR
    assert "copies of 20 rows" in finding.message
    assert "40 %" in finding.message
    assert finding.fixes[0].startswith("Remove duplicates before splitting")
    assert check(rows(3, copied=True, share_of_all=0.4)) == []
    assert check(rows(20, expected_share=1.0, copied=True, share_of_all=0.01)) == []


def split(step: int, trained: range, evaluated: range, size: int = 500) -> SplitDrawn:
    return SplitDrawn(
        step=step,
        data="TensorDataset",
        size=size,
        trained=pack(trained),
        evaluated=pack(evaluated),
        eval_loader="loader 2",
        location="train.py:48",
    )


FIRST = split(20, range(400), range(400, 500))


def after(*splits: SplitDrawn) -> list[Finding]:
    resumed = Resumed(step=400, evidence="its weights are those saved", splits=(FIRST,))
    return TrainEvalOverlap().check(window(loss(np.ones(600)), resumed, *splits))


def test_rows_split_anew_when_a_job_resumes_were_trained_on_before() -> None:
    [finding] = after(split(420, range(100, 500), range(100)))
    assert (finding.severity, finding.step) == (Severity.ERROR, 420)
    assert "100 of the 100 samples" in finding.message
    assert "resumed at step 400" in finding.message
    assert finding.fixes[0].startswith("Split with a fixed seed")


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(split(420, range(400), range(400, 500)), id="the same split"),
        pytest.param(split(420, range(100, 500), range(100), size=900), id="other data"),
        pytest.param(split(20, range(100, 500), range(100)), id="before it resumed"),
    ],
)
def test_a_job_that_resumes_with_its_split_is_healthy(now: SplitDrawn) -> None:
    assert after(now) == []


def test_a_dataset_of_its_own_that_is_the_training_data_is_a_warning() -> None:
    whole = rows(800, 800, source="loader 2", own_dataset=True)
    [finding] = check(whole)
    assert finding.severity is Severity.WARNING
    other = rows(0, source="loader 3", own_dataset=True)
    assert [f.severity for f in check(whole, other)] == [Severity.INFO]
    [finding] = check(rows(800, 800, source="loader 1"))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(("given", "used", "quiet"), [(800, 140, True), (800, 800, False)])
def test_losses_of_masked_rows_say_more_than_equal_inputs(
    given: int, used: int, quiet: bool
) -> None:
    facts = (
        rows(800, 800),
        InputDistribution(
            step=1, mode=Mode.TRAIN, module="Net", argument="x", rows=given, mean=0.0, std=1.0
        ),
        LossCall(step=1, mode=Mode.TRAIN, operation="nll", prediction_shape=(used, 7)),
    )
    assert (TrainEvalOverlap().check(window(*facts)) == []) is quiet


@pytest.mark.parametrize(("used", "quiet"), [(140, True), (800, False)])
def test_compared_rows_of_losses_say_more_than_equal_inputs(used: int, quiet: bool) -> None:
    compared = LossRowsShared(step=5, train_rows=used, eval_rows=200, shared=0)
    assert (TrainEvalOverlap().check(window(rows(800, 800), compared)) == []) is quiet


def test_batches_are_not_masked_rows() -> None:
    facts = (
        rows(800, 800),
        InputDistribution(
            step=1, mode=Mode.TRAIN, module="Net", argument="x", rows=32, mean=0.0, std=1.0
        ),
        LossCall(step=1, mode=Mode.TRAIN, operation="nll", prediction_shape=(32, 7)),
    )
    assert TrainEvalOverlap().check(window(*facts)) != []


def test_the_array_of_a_fit_is_not_masked() -> None:
    """Keras knows the whole array of a `fit`, of which each loss gets a batch."""
    given = InputDistribution(
        step=0, mode=Mode.TRAIN, module="m", argument="x", rows=1800, mean=0.0, std=1.0
    )
    call = LossCall(step=0, operation="binary_cross_entropy", prediction_shape=(32, 1))
    rows = RowsShared(
        step=60,
        module="m",
        argument="x",
        source="validation",
        train_rows=1100,
        eval_rows=500,
        shared=160,
        expected_share=0.4,
        copied=True,
        share_of_all=0.45,
    )
    [finding] = TrainEvalOverlap().check(window(given, call, rows, steps=100))
    assert "copies of 160 rows" in finding.message
