from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.evaluations import Evaluation, EvaluationPhase, LossRowsShared
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.steps import Mode
from mothtrap.rules.evaluation_labels_trained import EvaluationLabelsTrained

ROWS = 700


def check(
    *, loss: int = ROWS, trained: int = ROWS, evaluated: int = 200, targets: int = ROWS
) -> list[Finding]:
    """Check a model that returns 700 rows in an evaluation."""
    return EvaluationLabelsTrained().check(
        window(
            LossCall(
                step=1,
                operation="nll",
                prediction_shape=(loss, 5),
                location="train.py:9",
                targets=TargetSample(dtype="int64", count=targets),
            ),
            EvaluationPhase(
                step=2,
                mode=Mode.EVAL,
                module="GCN",
                module_type="GCN",
                forwards=1,
                trains=False,
                number=0,
                steps=1,
                output_shape=(ROWS, 5),
            ),
            Evaluation(
                step=2,
                mode=Mode.EVAL,
                site="train.py:20",
                operation="nll",
                value=0.4,
                calls=1,
                rows=evaluated,
                number=0,
                first=0.4,
                best=0.4,
                best_step=2,
            ),
            RowsShared(
                step=2,
                module="GCN",
                argument="x",
                source="calls with 700 rows at train.py:19",
                train_rows=trained,
                eval_rows=ROWS,
                shared=ROWS,
            ),
        )
    )


def test_labels_of_evaluated_rows_in_the_training_loss_are_reported() -> None:
    [finding] = check()
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:9")
    assert "uses all 700 rows that GCN returns, and the evaluation loss uses 200" in finding.message


def test_an_evaluation_of_all_rows_is_that_of_the_training_data() -> None:
    assert check(evaluated=ROWS) == []


@pytest.mark.parametrize(
    "sizes",
    [{"loss": 140}, {"trained": 5 * ROWS}, {"targets": 140}],
    ids=["a part is trained", "batches", "log-softmax of all, loss of a part"],
)
def test_does_not_apply(sizes: dict[str, int]) -> None:
    with pytest.raises(NotApplicable):
        check(**sizes)


def test_needs_an_evaluation() -> None:
    with pytest.raises(NotEnoughData):
        EvaluationLabelsTrained().check(
            window(LossCall(step=1, operation="nll", prediction_shape=(ROWS, 5)))
        )


def indexed(*shared: int, evaluated: int = 200) -> list[Finding]:
    return EvaluationLabelsTrained().check(
        window(
            *(
                LossRowsShared(
                    step=5, train_rows=140, eval_rows=evaluated, shared=each, location=f"e.py:{n}"
                )
                for n, each in enumerate(shared)
            )
        )
    )


def test_rows_of_a_mask_that_are_trained_and_evaluated_are_reported() -> None:
    [finding] = indexed(60)
    assert (finding.severity, finding.location) == (Severity.WARNING, "e.py:0")
    assert "uses the labels of 60 of the 200 rows of this evaluation loss" in finding.message
    [finding] = indexed(0, 60)
    assert finding.severity is Severity.WARNING
    [finding] = indexed(0, 50, evaluated=50)
    assert finding.severity is Severity.INFO


def test_other_rows_and_the_training_rows_are_fine() -> None:
    assert indexed(0) == indexed(9) == indexed(140, evaluated=140) == []


def by_mask(*shared: int) -> list[Finding]:
    facts = [
        LossRowsShared(
            step=5, train_rows=700, eval_rows=200, shared=each, mask=f"mask_{n}", location="t.py:1"
        )
        for n, each in enumerate(shared)
    ]
    return EvaluationLabelsTrained().check(window(*facts))


def test_rows_of_a_variable_if_the_evaluation_has_no_loss() -> None:
    [finding] = by_mask(100, 200)
    assert (finding.severity, finding.location) == (Severity.WARNING, "t.py:1")
    assert "uses the labels of 200 of the 200 rows of `mask_1`" in finding.message
    assert by_mask(0, 5) == []
