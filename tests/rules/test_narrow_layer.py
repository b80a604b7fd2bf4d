from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from tests.rules.classified import classified
from tests.rules.looks import scale, scales
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.window import Window
from mothtrap.rules.narrow_layer import narrow_layer
from mothtrap.testing import RuleTests

RIGHT, POOR = np.diag([20] * 6), np.full((6, 6), 2) + np.diag([8] * 6)
"""All labels predicted, and half of them."""


def seen(
    table: np.ndarray,
    *,
    widths: Sequence[int] = (12, 3),
    kind: str = "Linear",
    later: np.ndarray | None = None,
    steps: int = 256,
) -> Window:
    layers = [scale(str(2 * n), 1.0, fan_in=w, layer_type=kind) for n, w in enumerate(widths)]
    calls = classified(table.tolist(), looks=16)
    if later is not None:
        calls = [*calls[:12], *classified(later.tolist(), looks=16)[12:]]
    return window(scales(0, layers), *calls, steps=steps)


class TestNarrowLayer(RuleTests):
    rule = narrow_layer

    def sick(self) -> Iterable[Window]:
        yield seen(POOR)
        yield seen(POOR, widths=(12, 64, 5, 64))
        yield seen(RIGHT, later=POOR)

    def healthy(self) -> Iterable[Window]:
        yield seen(RIGHT)
        yield seen(POOR, widths=(3, 64))  # few columns
        yield seen(POOR, widths=(12, 6))  # as many as classes
        yield seen(POOR, widths=(12,) * 8 + (3,))  # many layers
        yield seen(POOR, kind="Conv2d")
        better = np.full((6, 6), 1) + np.diag([13] * 6)
        yield seen(POOR, later=better)  # still improves
        yield seen(np.array([[30, 20], [20, 30]]), widths=(12, 1))  # two classes


def test_names_the_layer_and_its_width() -> None:
    [finding] = narrow_layer().check(seen(POOR))
    assert finding.layers == ("2",)
    assert finding.message.startswith("2 gets only 3 values to distinguish 6 classes, and 50 % of")
    assert finding.fixes[0].startswith("Give the layer more units")


def test_says_what_is_missing() -> None:
    with pytest.raises(NotApplicable, match="plain network"):
        narrow_layer().check(seen(POOR, kind="Conv2d"))
    with pytest.raises(NotEnoughData, match="two stretches of 150"):
        narrow_layer().check(seen(POOR // 8))
    with pytest.raises(NotEnoughData, match="needs 200 steps, saw 150"):
        narrow_layer().check(seen(POOR, steps=150))
