from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.window import Window
from mothtrap.rules.loss_scaling_forgotten import loss_scaling_forgotten
from mothtrap.testing import RuleTests


def compiled(policy: str, *, scaled: bool | None) -> ModelCompiled:
    return ModelCompiled(
        step=0, model="net", model_type="Sequential", policy=policy, loss_scaled=scaled
    )


class TestLossScalingForgotten(RuleTests):
    rule = loss_scaling_forgotten

    def sick(self) -> Iterable[Window]:
        yield window(compiled("mixed_float16", scaled=False), steps=20)

    def healthy(self) -> Iterable[Window]:
        yield window(compiled("mixed_float16", scaled=True), steps=20)


def test_full_precision_needs_no_scale() -> None:
    with pytest.raises(NotApplicable):
        loss_scaling_forgotten().check(window(compiled("mixed_bfloat16", scaled=None), steps=20))
