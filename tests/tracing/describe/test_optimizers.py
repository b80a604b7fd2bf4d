from __future__ import annotations

import pytest

from mothtrap.tracing.describe.optimizers import has_second_moments


@pytest.mark.parametrize(
    "kind", ["Adam", "AdamW", "Nadam", "Adamax", "RMSprop", "RMSProp", "AdaGrad", "Lamb", "FTML"]
)
def test_optimizers_that_divide_by_squared_gradients(kind: str) -> None:
    assert has_second_moments(kind)


@pytest.mark.parametrize("kind", ["SGD", "Lion", "Ftrl", "NAG", "Signum"])
def test_other_optimizers(kind: str) -> None:
    assert not has_second_moments(kind)
