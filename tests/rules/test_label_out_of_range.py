from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import FailedLoss, LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.label_out_of_range import LabelOutOfRange


def call(
    step: int = 0,
    operation: str = "cross_entropy",
    counts: tuple[int, ...] | None = (40, 24),
    reduction: str = "mean",
    **sample: float,
) -> LossCall:
    return LossCall(
        step=step,
        operation=operation,
        series=LOSS,
        chain=("linear",),
        classes=2,
        location="train.py:9",
        reduction=reduction,
        label_counts=counts,
        targets=TargetSample(dtype="int64", count=64, **sample),
    )


def check(*observed: object) -> list[Finding]:
    return LabelOutOfRange().check(window(loss(np.ones(100)), *observed))


def test_a_call_that_failed_is_told() -> None:
    failed = FailedLoss(
        step=7, operation="cross_entropy", error="IndexError: ...", classes=3, least=1, greatest=3
    )
    [finding] = check(failed, call())
    assert (finding.severity, finding.step, finding.evidence["limit"]) == (Severity.ERROR, 7, 2)
    assert "1 to 3" in finding.message


def test_a_call_that_failed_is_of_the_step_that_never_ended() -> None:
    failed = FailedLoss(
        step=5, operation="cross_entropy", error="IndexError: ...", classes=3, least=0, greatest=3
    )
    [finding] = LabelOutOfRange().check(window(failed, call(), steps=5))
    assert (finding.step, finding.detected_step) == (5, 5)


@pytest.mark.parametrize(
    "failed",
    [
        pytest.param(
            FailedLoss(step=7, operation="nll", error="shapes", classes=3, least=0, greatest=2),
            id="labels are fine: it was something else",
        ),
        pytest.param(FailedLoss(step=7, operation="nll", error="CUDA"), id="cannot be read"),
    ],
)
def test_a_call_that_failed_otherwise_is_not(failed: FailedLoss) -> None:
    assert check(failed, call()) == []


@pytest.mark.parametrize(("least", "greatest"), [(-1.0, 1.0), (0.0, 255.0), (1.0, 2.0)])
@pytest.mark.parametrize("operation", ["binary_cross_entropy", "binary_cross_entropy_with_logits"])
def test_binary_targets_outside_of_0_to_1_are_an_error(
    operation: str, least: float, greatest: float
) -> None:
    [finding] = check(call(operation=operation, counts=None, least=least, greatest=greatest))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)


@pytest.mark.parametrize(("least", "greatest"), [(0.0, 1.0), (0.1, 0.9), (-1e-3, 1.001)])
def test_soft_binary_targets_are_healthy(least: float, greatest: float) -> None:
    soft = call(operation="binary_cross_entropy", counts=None, least=least, greatest=greatest)
    assert check(soft) == []


def test_noise_on_labels_is_a_note() -> None:
    [finding] = check(call(operation="binary_cross_entropy", counts=None, least=0, greatest=1.05))
    assert finding.severity is Severity.INFO


def test_nothing_but_ignored_labels_is_an_error_of_a_mean() -> None:
    [finding] = check(call(ignored_share=0.9), call(8, ignored_share=1.0))
    assert (finding.severity, finding.step) == (Severity.ERROR, 8)
    assert check(call(ignored_share=1.0, reduction="sum", counts=(3, 1))) == []
    [finding] = check(call(ignored_share=1.0), call(8, ignored_share=1.0))
    assert "of each batch" in finding.message
    assert finding.fixes[0].startswith("Check how the labels are loaded")


def ignoring(step: int, **more: object) -> LossCall:
    one = call(step, ignored_share=0.3, ignored_class=1)
    return msgspec.structs.replace(one, **{"prediction_shape": (64, 2), **more})


def test_a_class_that_is_ignored_is_a_warning() -> None:
    [finding] = check(*map(ignoring, (0, 8, 16)))
    assert (finding.severity, finding.step) == (Severity.WARNING, 0)
    assert "ignores label 1, which is a class of the model" in finding.message
    assert "30 % of 192 sampled labels" in finding.message
    assert finding.fixes[0].startswith("Remove `ignore_index`")
    assert check(*map(ignoring, (0, 8))) == []


def test_a_class_of_sentences_that_is_ignored_is_a_warning() -> None:
    sentences = {"model_inputs": ("int64",), "alone": True}
    [finding] = check(*(ignoring(step, **sentences) for step in (0, 8, 16)))
    assert finding.severity is Severity.WARNING


def test_a_background_that_is_ignored_is_a_note() -> None:
    one = call(ignored_share=0.8, ignored_class=0)
    maps = {"prediction_shape": (64, 3, 8, 8), "model_inputs": ("float32",)}
    many = [msgspec.structs.replace(one, step=step, **maps) for step in (0, 8, 16)]
    [finding] = check(*many)
    assert finding.severity is Severity.INFO
    assert "80 % of 192 sampled labels" in finding.message


@pytest.mark.parametrize(
    "more",
    [
        {"prediction_shape": (64, 2, 8, 8)},
        {"model_inputs": ("int64",)},
        {"model_inputs": ("int64",), "alone": False},
    ],
)
def test_pixels_and_tokens_may_be_ignored(more: dict[str, object]) -> None:
    assert check(*(ignoring(step, **more) for step in (0, 8, 16))) == []


def test_a_class_that_does_not_occur_is_not_ignored() -> None:
    none = [call(step, ignored_share=0.0, ignored_class=1) for step in (0, 8, 16)]
    assert check(*(msgspec.structs.replace(one, prediction_shape=(64, 2)) for one in none)) == []


def test_does_not_apply_without_labels() -> None:
    with pytest.raises(NotApplicable):
        check(LossCall(step=0, operation="elementwise"))
    with pytest.raises(NotEnoughData):
        check(LossCall(step=0, operation="cross_entropy"))


@pytest.mark.parametrize(
    ("least", "greatest", "advice"),
    [
        pytest.param(0.0, 255.0, "Divide the targets by 255", id="pixels"),
        pytest.param(-1.0, 1.0, "(y > 0).float()", id="labels of -1 and 1"),
        pytest.param(1.0, 2.0, "subtract 1", id="labels of 1 and 2"),
        pytest.param(0.0, 9.0, "`cross_entropy`", id="class numbers"),
    ],
)
def test_the_fix_of_binary_targets_fits_their_range(
    least: float, greatest: float, advice: str
) -> None:
    binary = call(operation="binary_cross_entropy", counts=None, least=least, greatest=greatest)
    [finding] = check(binary)
    assert advice in finding.fixes[0]


def test_class_numbers_beyond_the_outputs_get_the_fix_for_class_numbers() -> None:
    failed = FailedLoss(
        step=0, operation="cross_entropy", error="IndexError: ...", classes=3, least=1, greatest=3
    )
    [finding] = check(failed, call())
    assert finding.fixes[0].startswith("Number the classes from 0")


def test_labels_of_zero_in_a_loss_of_signs_are_a_warning() -> None:
    pair = call(operation="cosine_embedding_loss", counts=None, least=0, greatest=1)
    [finding] = check(pair)
    assert finding.severity is Severity.WARNING
    assert "it expects -1 and 1: rows with the label 0 have no effect" in finding.message
    assert finding.fixes[0].startswith("Map labels of 0 and 1 to -1 and 1")
