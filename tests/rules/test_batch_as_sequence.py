from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.layers import RowTaken, SequenceAxes
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.batch_as_sequence import batch_as_sequence


def check(
    shape: tuple[int, ...],
    prediction: tuple[int, ...],
    *,
    steps: int = 3,
    samples: int | None = None,
) -> list[Finding]:
    every = range(steps)
    return batch_as_sequence().check(
        window(
            *(
                SequenceAxes(
                    step=step,
                    module="rnn",
                    module_type="LSTM",
                    shape=shape,
                    samples=samples,
                    location="net.py:4",
                )
                for step in every
            ),
            *(
                LossCall(step=step, operation="cross_entropy", prediction_shape=prediction)
                for step in every
            ),
        )
    )


def test_rows_of_the_loss_along_the_axis_of_the_sequence_are_reported() -> None:
    [finding] = check((32, 12, 8), (32, 4))
    assert (finding.severity, finding.location) == (Severity.WARNING, "net.py:4")
    assert "rnn (LSTM) treats axis 0 of its input of shape (32, 12, 8)" in finding.message
    assert "runs over the 32 rows of the batch" in finding.message


@pytest.mark.parametrize(
    ("shape", "prediction"),
    [
        pytest.param((12, 32, 8), (32, 4), id="sequence first"),
        pytest.param((12, 32, 8), (384, 4), id="a loss over every position"),
        pytest.param((12, 32, 8), (12, 32, 1), id="a series that is predicted"),
        pytest.param((12, 1, 8), (12, 4), id="one sentence at a time"),
        pytest.param((32, 32, 8), (32, 4), id="as many rows as positions"),
    ],
)
def test_stays_quiet(shape: tuple[int, ...], prediction: tuple[int, ...]) -> None:
    assert check(shape, prediction) == []


def test_the_samples_of_the_loader_along_the_axis_of_the_sequence_are_reported() -> None:
    [finding] = check((32, 12, 8), (32, 12, 4), samples=32)
    assert "the loader drew 32 samples for the batch" in finding.message
    assert check((12, 32, 8), (12, 4), samples=32) == []
    assert check((12, 32, 8), (32, 12, 4), samples=5) == []


def test_a_look_at_an_evaluation_does_not_count() -> None:
    every = [
        SequenceAxes(step=step, module="rnn", module_type="LSTM", shape=(rows, 12, 8))
        for step, rows in enumerate([32, 200, 32, 32])
    ]
    losses = [
        LossCall(step=step, operation="cross_entropy", prediction_shape=(32, 4))
        for step in range(4)
    ]
    assert batch_as_sequence().check(window(*every, *losses))


def test_needs_two_looks_and_such_a_module() -> None:
    with pytest.raises(NotEnoughData):
        check((32, 12, 8), (32, 4), steps=1)
    with pytest.raises(NotApplicable):
        batch_as_sequence().check(window(LossCall(step=0, operation="cross_entropy")))


def of_next_tokens(shape: tuple[int, ...], sequences: tuple[int, int]) -> list[Finding]:
    """Check a language model whose loss has a row for each position."""
    rows = shape[0] * shape[1]
    targets = TargetSample(dtype="int64", count=rows, sequences=sequences)
    facts: list[Fact] = []
    for step in range(3):
        facts += [
            SequenceAxes(step=step, module="rnn", module_type="LSTM", shape=shape),
            LossCall(
                step=step,
                operation="cross_entropy",
                prediction_shape=(rows, 200),
                targets=targets if step != 1 else None,
            ),
        ]
    return batch_as_sequence().check(window(*facts))


def test_next_tokens_along_axis_1_fire_without_a_loader() -> None:
    [finding] = of_next_tokens((20, 30, 8), (20, 30))
    assert "the next tokens of 20 sequences along axis 1" in finding.message


def test_next_tokens_along_axis_0_are_fine() -> None:
    assert of_next_tokens((30, 20, 8), (20, 30)) == []


def test_the_last_row_of_a_batch_is_no_last_position() -> None:
    taken = RowTaken(step=11, looks=5, found=5, shape=(16, 16, 48), location="train.py:9")
    [finding] = batch_as_sequence().check(window(taken))
    assert (finding.title, finding.step) == ("last row taken as last position", 0)
    assert "the last of 16 rows is taken from an output of shape (16, 16, 48)" in finding.message
    assert finding.fixes[0].startswith("Take the last position of each row: `out[:, -1]`")
