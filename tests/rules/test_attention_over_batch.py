from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import AttentionAxis
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.attention_over_batch import attention_over_batch


def check(*, looks: int = 5, axis: int = 0, steps: int = 20) -> list[Finding]:
    shape = (32, 4, 10, 10) if axis else (32, 10)
    seen = [
        AttentionAxis(step=step, shape=shape, axis=axis, location="net.py:7")
        for step in range(looks)
    ]
    return attention_over_batch().check(window(*seen, steps=steps))


def test_a_softmax_over_the_batch_is_a_warning() -> None:
    [finding] = check()
    assert (finding.severity, finding.location) == (Severity.WARNING, "net.py:7")
    assert "scores of shape (32, 10) runs over axis 0, the rows of the batch" in finding.message


def test_a_softmax_over_the_heads_is_a_warning() -> None:
    [finding] = check(axis=1)
    assert "runs over axis 1, the heads" in finding.message


def test_stays_quiet() -> None:
    assert check(looks=0) == []
    assert check(looks=2) == []
    with pytest.raises(NotEnoughData):
        check(looks=2, steps=2)
