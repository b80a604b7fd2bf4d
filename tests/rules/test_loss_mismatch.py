from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Window
from mothtrap.rules.loss_mismatch import LossMismatch
from mothtrap.testing import RuleTests

SPARSE = "sparse_categorical_crossentropy"
BINARY = "binary_crossentropy"


def call(
    step: int,
    function: str | None = SPARSE,
    operation: str = "cross_entropy",
    chain: tuple[str, ...] = ("linear",),
    shape: tuple[int, ...] = (32, 10),
    span: tuple[float, float] = (0.0, 1.0),
    targets: TargetSample | None = None,
    probabilities: bool = True,
) -> LossCall:
    return LossCall(
        step=step,
        function=function,
        operation=operation,
        chain=chain,
        prediction_shape=shape,
        predicted_least=span[0],
        predicted_greatest=span[1],
        predicts_probabilities=probabilities,
        targets=targets,
        location="train.py:9",
    )


def labels(greatest: float, dtype: str = "int64") -> TargetSample:
    return TargetSample(dtype=dtype, count=32, least=0.0, greatest=greatest)


def twice(**given: object) -> Window:
    return window(call(0, **given), call(1, **given))  # type: ignore[arg-type]


def check(seen: Window) -> list[Finding]:
    return LossMismatch().check(seen)


SCORES = {"span": (-3.0, 4.0)}
ONE_OUTPUT = {"shape": (32, 1)}
ONE_SOFTMAX = {
    "function": BINARY,
    "operation": "binary_cross_entropy",
    "chain": ("softmax", "linear"),
    "shape": (32, 1),
}
TEN_BINARY = {**ONE_SOFTMAX, "shape": (32, 10)}
SIGMOIDS = {"chain": ("sigmoid", "linear")}
SQUARED = {
    "function": "mean_squared_error",
    "operation": "elementwise",
    "shape": (32, 1),
    "probabilities": False,
}


class TestLossMismatch(RuleTests):
    rule = LossMismatch

    def sick(self) -> Iterable[Window]:
        for given in (SCORES, ONE_OUTPUT, ONE_SOFTMAX, TEN_BINARY, SIGMOIDS):
            yield twice(**given)
        yield twice(**SQUARED, targets=labels(9.0))
        yield twice(**SQUARED | {"shape": (32,)}, targets=labels(2.0))
        yield twice(**SQUARED | {"shape": (32,)}, targets=labels(1.0))
        yield twice(**SQUARED | {"shape": (32,), "function": None}, targets=labels(1.0))

    def healthy(self) -> Iterable[Window]:
        yield twice()
        yield twice(function=BINARY, operation="binary_cross_entropy", chain=("sigmoid", "linear"))
        yield twice(**SCORES | {"probabilities": False})
        yield twice(**SQUARED, targets=labels(120.0))
        yield twice(**SQUARED, targets=labels(9.0, "float32"))
        yield twice(**SQUARED | {"shape": (32,)}, targets=labels(1.0, "float32"))
        yield twice(**SQUARED | {"shape": (32, 3)}, targets=labels(1.0))
        yield twice(**SQUARED | {"function": None}, targets=labels(1.0, "float32"))
        yield twice(**SCORES | {"function": None, "operation": "binary_cross_entropy"})


@pytest.mark.parametrize("given", [SCORES, ONE_OUTPUT, ONE_SOFTMAX])
def test_what_cannot_be_meant_is_an_error(given: dict[str, object]) -> None:
    [finding] = check(twice(**given))
    assert finding.severity is Severity.ERROR
    assert finding.location == "train.py:9"


@pytest.mark.parametrize("given", [TEN_BINARY, SIGMOIDS])
def test_what_may_be_meant_is_a_warning(given: dict[str, object]) -> None:
    assert check(twice(**given))[0].severity is Severity.WARNING


def test_the_activation_that_is_missing_is_named() -> None:
    [classes] = check(twice(**SCORES))
    assert "-3 to 4" in classes.message
    assert 'activation="softmax"' in classes.fixes[0]
    binary = {"function": BINARY, "operation": "binary_cross_entropy", **SCORES}
    [two] = check(twice(**binary))
    assert 'activation="sigmoid"' in two.fixes[0]


def rows(greatest: float) -> TargetSample:
    return TargetSample(dtype="float32", count=32, row_sums=(0.0, greatest))


def test_labels_of_which_several_are_right_need_another_loss() -> None:
    several = {"function": "categorical_crossentropy", "chain": ("softmax", "linear")}
    [finding] = check(twice(**several, targets=rows(3.0)))
    assert finding.severity is Severity.WARNING
    assert finding.message.startswith("a row of labels sums to 3, but")
    assert check(twice(**several, targets=rows(1.0))) == []


def test_one_batch_outside_of_probabilities_is_not_enough() -> None:
    assert check(window(call(0, **SCORES), call(1))) == []  # type: ignore[arg-type]


def test_losses_that_are_not_named_are_another_rules() -> None:
    with pytest.raises(NotApplicable):
        check(window(LossCall(step=0, operation="cross_entropy")))


def one_hot(
    sums: tuple[float, float] | None,
    rows: int = 64,
    *,
    width: int = 5,
    std: float = 0.4,
    alone: bool = True,
) -> Window:
    sample = TargetSample(
        dtype="float32", count=width * rows, row_sums=sums, mean=0.2, std=std, least=0.0
    )
    calls = [
        LossCall(
            step=step,
            operation="binary_cross_entropy_with_logits",
            chain=("linear",),
            prediction_shape=(rows, width),
            target_shape=(rows, width),
            targets=sample,
            alone=alone,
            location="train.py:9",
        )
        for step in (0, 8)
    ]
    return window(*calls)


def test_exclusive_classes_under_a_binary_loss_are_a_note() -> None:
    [finding] = check(one_hot((1.0, 1.0)))
    assert finding.severity is Severity.INFO
    assert "each of 128 inspected rows has exactly one of 5 labels" in finding.message
    assert "argmax" in finding.fixes[0]


@pytest.mark.parametrize(
    "seen",
    [
        one_hot((0.0, 1.0)),
        one_hot((1.0, 3.0)),
        one_hot((0.0, 0.0)),
        one_hot(None),
        one_hot((1, 1), 8),
        one_hot((1, 1), std=0.1),  # shares of classes
        one_hot((1, 1), width=64),  # pairs of rows
        one_hot((1, 1), alone=False),
    ],
)
def test_labels_that_do_not_exclude_each_other_fit_a_binary_loss(seen: Window) -> None:
    assert check(seen) == []
