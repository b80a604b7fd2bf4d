from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.window import Window
from mothtrap.rules.eager_training import eager_training
from mothtrap.testing import RuleTests


def compiled(**given: bool) -> ModelCompiled:
    return ModelCompiled(step=0, model="net", model_type="Sequential", **given)  # type: ignore[arg-type]


class TestEagerTraining(RuleTests):
    rule = eager_training

    def sick(self) -> Iterable[Window]:
        yield window(compiled(runs_eagerly=True), steps=300)
        yield window(compiled(whole_process=True), steps=300)

    def healthy(self) -> Iterable[Window]:
        yield window(compiled(), steps=300)
        yield window(compiled(runs_eagerly=True), steps=100)


def test_the_advice_fits_what_was_set() -> None:
    [model] = eager_training().check(window(compiled(runs_eagerly=True), steps=300))
    [process] = eager_training().check(window(compiled(whole_process=True), steps=300))
    assert "run_eagerly=True" in model.fixes[0]
    assert "run_functions_eagerly" in process.fixes[0]
