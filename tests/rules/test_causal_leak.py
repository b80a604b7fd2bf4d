from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.causal_leak import CausalLeak

STEPS = (0, 8, 16)


def call(step: int, offsets: tuple[int, ...] | None, ahead: str | None = "") -> LossCall:
    return LossCall(
        step=step,
        operation="cross_entropy",
        series=LOSS,
        classes=4,
        location="lm.py:12",
        label_counts=(10, 10, 10, 10),
        targets=TargetSample(dtype="int64", count=40, input_offsets=offsets),
        looks_ahead=ahead,
    )


def calls(offsets: tuple[int, ...] | None, ahead: str | None = "") -> list[LossCall]:
    return [call(step, offsets, ahead if step < 16 else None) for step in STEPS]


def check(observed: list[LossCall], values: object = 2.0) -> list[Finding]:
    return CausalLeak().check(window(loss(np.full(20, values)), *observed))


def test_labels_that_are_the_inputs_are_a_warning_while_the_loss_is_high() -> None:
    [finding] = check(calls((0,)), math.log(4))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert finding.location == "lm.py:12"
    assert "not shifted" in finding.message


def test_smoothed_labels_have_no_entropy_to_compare_with() -> None:
    smoothed = [msgspec.structs.replace(one, label_counts=None) for one in calls((0,), "causal")]
    [finding] = check(smoothed, 0.01)
    assert finding.severity is Severity.WARNING
    assert finding.message.endswith("the labels are not shifted")


def test_and_an_error_once_the_loss_shows_that_they_are_copied() -> None:
    faulty = calls((0,), "causal")
    assert check(faulty, 0.29 * math.log(4))[0].severity is Severity.ERROR
    assert check(faulty, 0.31 * math.log(4))[0].severity is Severity.WARNING


def test_what_may_be_an_autoencoder_is_no_error() -> None:
    assert check(calls((0,), ""), 0.01)[0].severity is Severity.WARNING


def test_a_decoder_that_is_given_its_targets_is_reported() -> None:
    given = TargetSample(dtype="int64", count=40, input_offsets=(0, 1), decoded=True)
    seen = [msgspec.structs.replace(call(step, None), targets=given) for step in STEPS]
    [finding] = check(seen, math.log(4))
    assert finding.fixes[0].startswith("Give a decoder the tokens before its targets")
    assert finding.severity is Severity.WARNING
    assert "the targets are the inputs of the decoder at the same position" in finding.message


def test_one_look_proves_nothing() -> None:
    assert check(calls((0,))[:1]) == []
    assert check(calls((1,), "attention")[:1]) == []


@pytest.mark.parametrize(
    ("ahead", "message", "fix"),
    [
        ("attention", "attention without a mask reveals them", "Mask the attention"),
        (
            "recurrent",
            "bidirectional recurrent layers reveal them",
            "Use unidirectional recurrent layers",
        ),
    ],
)
def test_shifted_labels_that_the_model_can_see_are_an_error(
    ahead: str, message: str, fix: str
) -> None:
    [finding] = check(calls((1,), ahead))
    assert (finding.severity, finding.evidence["looks_ahead"]) == (Severity.ERROR, ahead)
    assert message in finding.message
    assert [fix in told for told in finding.fixes] == [True]


def test_labels_that_are_not_shifted_are_to_be_shifted_first() -> None:
    assert check(calls((0,), "causal"))[0].fixes[0].startswith("Shift the labels")


def test_a_model_that_sees_both_sides_may_be_a_masked_language_model() -> None:
    hide, shift = check(calls((0,), "attention"))[0].fixes
    assert hide.startswith("In a masked language model, replace the labeled tokens")
    assert shift.startswith("Shift the labels")


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param(calls((1,)), id="shifted, and a mask"),
        pytest.param(calls((1,), None), id="shifted, and nothing known of attention"),
        pytest.param(calls(()), id="masked language model, or translation"),
        pytest.param(calls((), "attention"), id="an encoder"),
        pytest.param(calls((0, 1), "attention"), id="the sequence is given twice"),
        pytest.param(calls((1,), "causal"), id="one way"),
        pytest.param([*calls((0,)), call(24, ())], id="one batch that differs"),
        pytest.param([*calls((1,), "attention")[:2], call(24, ())], id="another task in turn"),
    ],
)
def test_stays_quiet(healthy: list[LossCall]) -> None:
    assert check(healthy) == []


def test_does_not_apply_without_sequences_of_integers() -> None:
    with pytest.raises(NotApplicable, match="integers"):
        check(calls(None))
    with pytest.raises(NotApplicable, match="class loss"):
        check([LossCall(step=0, operation="elementwise")])
    with pytest.raises(NotEnoughData):
        check([LossCall(step=0, operation="cross_entropy")])
