from __future__ import annotations

import math

import pytest
from tests.rules.weights import tensors
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import InputDistribution, LoaderBegan
from mothtrap.core.facts.data import NonfiniteInput as Seen
from mothtrap.core.findings import Severity
from mothtrap.core.steps import Mode
from mothtrap.rules.nonfinite_input import NonfiniteInput

LOADER = LoaderBegan(step=0, loader="loader 1", sampler="shuffled")
BROKEN_AT_3 = [1.0, 0.9, 0.8, math.nan, math.nan, math.nan]


def seen(step: int = 3, **more) -> Seen:
    options = {
        "tensor": "0",
        "source": "loader 1",
        "from_loader": True,
        "nan": 1,
        "inf": 0,
        "rows": (5,),
        "row_count": 1,
        "location": "train.py:8",
    }
    return Seen(step=step, **{**options, **more})


def check(*parts):
    return NonfiniteInput().check(window(*parts))


def test_an_input_that_breaks_the_loss_is_an_error_and_names_the_samples() -> None:
    [finding] = check(LOADER, seen(samples=(390,)), loss(BROKEN_AT_3))
    assert (finding.severity, finding.step, finding.mode) == (Severity.ERROR, 3, "train")
    assert finding.location == "train.py:8"
    assert "row 5 (sample 390 of the data)" in finding.message
    assert finding.evidence["rows"] == [5]


def test_samples_of_later_batches_are_named_because_all_are_to_be_repaired() -> None:
    """Of three bad samples one was named, and the advice was to repair the samples named."""
    parts = (seen(3, samples=(1900,)), seen(4, samples=(700, 3100)), seen(5, samples=(1900,)))
    [finding] = check(LOADER, *parts, loss(BROKEN_AT_3))
    assert "(sample 1900 of the data); later also in samples 700, 3100" in finding.message
    [alone] = check(LOADER, seen(3, samples=(390,)), seen(4, samples=(390,)), loss(BROKEN_AT_3))
    assert "later" not in alone.message


def test_gradients_break_alone_where_a_rectifier_makes_0_of_nan() -> None:
    healthy = loss([1.0] * 6)
    for nan, severity in ([0, 0, 0, 2, 0, 0], Severity.ERROR), ([0] * 6, Severity.INFO):
        gradients = tensors("nan", {"0.weight": nan}, kind="gradient", steps=range(6))
        [finding] = check(LOADER, seen(), healthy, gradients)
        assert finding.severity is severity


def test_a_batch_that_was_fetched_one_step_ahead_is_the_cause_too() -> None:
    [finding] = check(seen(2), loss(BROKEN_AT_3))
    assert (finding.severity, finding.step) == (Severity.ERROR, 2)


@pytest.mark.parametrize("step", [0, 4])
def test_what_reaches_no_loss_is_a_note(step: int) -> None:
    losses = [math.nan, *[1.0] * 5] if step else BROKEN_AT_3
    [finding] = check(seen(step), loss(losses))
    assert finding.severity is Severity.INFO
    assert "every loss stayed finite" in finding.message


def test_the_first_batch_that_broke_a_loss_counts_not_the_first_seen() -> None:
    [finding] = check(seen(0), seen(3), loss(BROKEN_AT_3))
    assert (finding.severity, finding.step) == (Severity.ERROR, 3)


def test_in_an_evaluation_it_is_a_warning_where_its_loss_breaks() -> None:
    own = seen(2, mode=Mode.EVAL, from_loader=False, tensor="x", source="Net")
    broken = loss([1.0, math.nan], steps=[1, 2], mode=Mode.EVAL)
    [finding] = check(own, broken, loss([1.0] * 4))
    assert (finding.severity, finding.mode) == (Severity.WARNING, "eval")
    assert "argument x of Net" in finding.message
    [finding] = check(own, loss([1.0] * 4))
    assert finding.severity is Severity.INFO


def test_what_the_script_made_of_finite_data_is_not_blamed_on_the_data() -> None:
    own = seen(from_loader=False, tensor="target", source="the loss", computed=True)
    [finding] = check(LOADER, own, loss(BROKEN_AT_3))
    assert finding.severity is Severity.ERROR
    assert "the loader's data were finite, so the script computed it" in finding.message
    [fix] = finding.fixes
    assert "mothtrap replay" in fix
    assert "samples" not in fix


def test_where_no_one_knows_the_data_come_first_and_the_script_last() -> None:
    [finding] = check(LOADER, seen(from_loader=False), loss(BROKEN_AT_3))
    assert "the script computed it" not in finding.message
    assert "a missing value in the data" in finding.fixes[0]
    assert "mothtrap replay" in finding.fixes[-1]


def test_quiet_when_data_were_looked_at_and_nothing_was_found() -> None:
    assert check(LOADER, loss(BROKEN_AT_3)) == []
    scale = InputDistribution(step=0, module="Net", argument="x", rows=8, mean=0.0, std=1.0)
    assert check(scale) == []


def test_does_not_judge_what_no_one_looked_at() -> None:
    with pytest.raises(NotEnoughData, match="no floating-point data"):
        check(loss(BROKEN_AT_3))
