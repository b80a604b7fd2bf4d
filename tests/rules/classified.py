"""Hand-made loss calls of classifiers: labels and predictions per inspection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.rules.windows import LOSS

from mothtrap.core.facts.losses import LossCall, TargetSample


def classified(
    confusion: Sequence[Sequence[int]],
    *,
    looks: int = 10,
    weighted: bool = False,
    class_weights: Sequence[float] = (),
    series: str = LOSS,
    model_inputs: tuple[str, ...] = ("float32",),
) -> list[LossCall]:
    """A call every 16 steps with these counts of label (rows) and prediction (columns)."""
    counts_KK = np.array(confusion)
    count = int(counts_KK.sum())
    classes = len(counts_KK)
    return [
        LossCall(
            step=16 * look,
            operation="cross_entropy",
            series=series,
            classes=classes,
            prediction_shape=(count, classes),
            location="train.py:9",
            reduction="mean",
            model_inputs=model_inputs,
            label_counts=tuple(counts_KK.sum(1).tolist()),
            targets=TargetSample(
                dtype="int64",
                count=count,
                weighted=weighted or bool(class_weights),
                class_weights=tuple(class_weights),
                confusion=tuple(counts_KK.reshape(-1).tolist()),
            ),
        )
        for look in range(looks)
    ]
