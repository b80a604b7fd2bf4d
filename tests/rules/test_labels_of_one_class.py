from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.windows import LOSS, loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.labels_of_one_class import labels_of_one_class


def call(step: int = 0, counts: tuple[int, ...] | None = (64, 0)) -> LossCall:
    return LossCall(
        step=step,
        operation="cross_entropy",
        series=LOSS,
        chain=("linear",),
        classes=2,
        location="train.py:9",
        label_counts=counts,
    )


def check(*observed: object) -> list[Finding]:
    return labels_of_one_class().check(window(loss(np.ones(100)), *observed))


ONE_CLASS = [call(step) for step in range(0, 80, 8)]


def test_labels_of_one_class_alone_are_an_error() -> None:
    [finding] = check(*ONE_CLASS)
    assert (finding.severity, finding.evidence["class"]) == (Severity.ERROR, 0)
    with pytest.raises(NotEnoughData, match="500"):
        check(*ONE_CLASS[:7])


def test_fewer_labels_are_enough_for_more_classes() -> None:
    few = [call(step, (30, 0, 0)) for step in range(0, 64, 8)]
    [finding] = check(*few)
    assert finding.evidence["labels"] == 240
    with pytest.raises(NotEnoughData, match="needs 200 labels, saw 150"):
        check(*few[:5])


def test_it_has_passed_when_another_class_comes() -> None:
    assert check(*ONE_CLASS[1:], call(counts=(63, 1))) == []
    assert labels_of_one_class.passes


@pytest.mark.parametrize(
    "meant",
    [
        pytest.param(
            [msgspec.structs.replace(c, chain=("div", "cat")) for c in ONE_CLASS],
            id="the first of similarities",
        ),
        pytest.param([*ONE_CLASS, loss(np.ones(100), of="g.py:1", optimizers=("G",))], id="game"),
    ],
)
def test_does_not_apply_where_one_class_may_be_meant(meant: list[object]) -> None:
    with pytest.raises(NotApplicable):
        check(*meant)


def pairs(*chains: tuple[str, ...], labels: tuple[int, ...] = (1, 1)) -> list[LossCall]:
    return [
        msgspec.structs.replace(
            call(step, (0, 64) if label else (64, 0)),
            operation="binary_cross_entropy_with_logits",
            chain=chain,
        )
        for step in range(0, 80, 8)
        for chain, label in zip(chains, labels, strict=False)
    ]


def test_pairs_without_a_negative_are_a_warning() -> None:
    [finding] = check(*pairs(("sum", "mul"), ("sum", "mul")))
    assert (finding.severity, finding.evidence["class"]) == (Severity.WARNING, 1)
    assert "the 2 losses of pairs of a step have the label 1 for all pairs" in finding.message
    assert check(*pairs(("sum", "mul"), ("bmm",), labels=(1, 0))) == []


@pytest.mark.parametrize(
    "chains", [[("sub", "sum"), ("sub", "sum")], [("sum", "mul")], [("sum", "mul"), ("neg", "sum")]]
)
def test_other_scores_of_pairs_are_fine(chains: list[tuple[str, ...]]) -> None:
    with pytest.raises(NotApplicable):
        check(*pairs(*chains))


def test_the_two_calls_of_an_adversary_have_a_class_each() -> None:
    other = [
        msgspec.structs.replace(c, label_counts=(0, 64), location="train.py:10") for c in ONE_CLASS
    ]
    assert check(*ONE_CLASS, *other) == []


def test_does_not_apply_without_labels() -> None:
    with pytest.raises((NotApplicable, NotEnoughData)):
        check(LossCall(step=0, operation="elementwise"))
