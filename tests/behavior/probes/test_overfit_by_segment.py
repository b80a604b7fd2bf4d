"""A segment that was memorized is named; equal errors in training and held-out rows are fine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.behavior.asking import labels, outcome, people, sure

from mothtrap.behavior.probes.overfit_by_segment import OverfitBySegment
from mothtrap.core.findings import RuleState

X = people(6000)
TRAIN, HELD = X[:3000], X[3000:].reset_index(drop=True)
Y = labels(X, np.where(X.kind == "d", 0.35, 0.05))
SEEN = dict(zip(TRAIN.x1, Y[:3000], strict=True))


def memory(d: pd.DataFrame) -> np.ndarray:
    """A model with the labels of training rows of kind d."""
    answer = sure(d)
    for place, (value, kind) in enumerate(zip(d.x1, d.kind, strict=True)):
        if kind == "d" and value in SEEN:
            answer[place] = (0.9, 0.1) if SEEN[value] == 0 else (0.1, 0.9)
    return answer


@pytest.mark.parametrize(("model", "count"), [(memory, 1), (sure, 0)])
def test_only_memorized_segments_are_named(model, count: int) -> None:  # type: ignore[no-untyped-def]
    found = outcome(OverfitBySegment(), model, HELD, Y[3000:], (TRAIN, Y[:3000]))
    assert [finding.evidence["segment"] for finding in found.findings] == ["kind = d"] * count


def test_training_rows_are_needed() -> None:
    found = outcome(OverfitBySegment(), sure, HELD, Y[3000:])
    assert found.statuses[0].state is RuleState.NOT_APPLICABLE
    assert "train=" in found.statuses[0].reason
