from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.losses import LossCall
from mothtrap.core.window import Window
from mothtrap.rules.probabilities_as_logits import probabilities_as_logits
from mothtrap.testing import RuleTests


def call(taken_back: str = "", step: int = 0, *, probabilities: bool = False) -> LossCall:
    return LossCall(
        step=step,
        operation="cross_entropy",
        location="train.py:9",
        function="sparse_categorical_crossentropy",
        predicts_probabilities=probabilities or bool(taken_back),
        taken_back=taken_back,
    )


class TestProbabilitiesAsLogits(RuleTests):
    rule = probabilities_as_logits

    def sick(self) -> Iterable[Window]:
        yield window(call("softmax"))
        yield window(call(), call("softmax", step=3))

    def healthy(self) -> Iterable[Window]:
        yield window(call())
        yield window(call(probabilities=True))


def test_it_is_a_warning_in_the_line_of_the_loss() -> None:
    [finding] = probabilities_as_logits().check(window(call("softmax", 2), call("softmax", 5)))
    assert (finding.severity, finding.step, finding.count) == ("warning", 2, 2)
    assert finding.location == "train.py:9"
    assert finding.message == (
        "softmax goes into sparse_categorical_crossentropy with `from_logits=True`: "
        "here, the framework uses the input of the softmax instead, but it cannot always do this"
    )
