from __future__ import annotations

from collections.abc import Iterable

from tests.rules.windows import window

from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.window import Window
from mothtrap.rules.missing_activation import missing_activation
from mothtrap.testing import RuleTests


def compiled(*linear: str) -> ModelCompiled:
    return ModelCompiled(
        step=0, model="net", model_type="Sequential", linear_layers=linear, location="train.py:9"
    )


class TestMissingActivation(RuleTests):
    rule = missing_activation

    def sick(self) -> Iterable[Window]:
        yield window(compiled("net/dense"), steps=3)
        yield window(compiled("net/dense", "net/dense_1"), steps=300)

    def healthy(self) -> Iterable[Window]:
        yield window(compiled(), steps=300)


def test_the_layers_are_named() -> None:
    [found] = missing_activation().check(window(compiled("net/dense", "net/dense_1"), steps=9))
    assert found.layers == ("net/dense", "net/dense_1")
    assert "2 hidden layers have no activation" in found.message
