from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.rules.looks import attention
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Severity
from mothtrap.rules.attention_collapse import AttentionCollapse

STEPS = [0, 1, 2, 3, 10, 20, 50, 100, 200, 300, 600]


def check(*heads: list[float], steps=STEPS, losses=(), **more):
    """Entropies of heads, one list each."""
    looks = [
        attention(step, [head[place] for head in heads], **more) for place, step in enumerate(steps)
    ]
    return AttentionCollapse().check(window(*looks, *losses))


WIDE = [0.9] * 11
NARROWING = [0.9, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1, 0.04, 0.02, 0.01, 0.01]


def test_fires_when_half_of_the_heads_come_to_look_at_one_position() -> None:
    [finding] = check(WIDE, NARROWING)
    assert (finding.severity, finding.step, finding.last_step) == (Severity.WARNING, 100, 600)
    assert (finding.layers, finding.location) == (("attention 1 of 1",), "train.py:9")
    assert "1 of 2 heads" in finding.message


def test_stays_quiet_on_one_narrow_head_of_many() -> None:
    assert check(WIDE, WIDE, NARROWING) == []


def test_stays_quiet_where_the_loss_falls_with_it() -> None:
    learns = replace(loss(np.linspace(2.5, 0.1, 601)), first=2.5)
    stays = replace(loss(np.linspace(2.5, 2.0, 601)), first=2.5)
    assert check(WIDE, NARROWING, losses=[learns]) == []
    assert check(WIDE, NARROWING, losses=[stays]) != []


def test_stays_quiet_on_heads_that_were_narrow_from_the_start() -> None:
    assert check([0.02] * 11, WIDE) == []


def test_stays_quiet_until_it_persists() -> None:
    assert check(WIDE, [*NARROWING[:9]], steps=STEPS[:9]) == []
    assert check(WIDE, [*NARROWING[:10], 0.5]) == []


def test_fires_on_attention_that_stays_even() -> None:
    [finding] = check([1.0] * 11, [0.99999] * 11)
    assert "uniform for 600 steps" in finding.message
    assert check([1.0] * 9, steps=STEPS[:9]) == []
    assert check([1.0] * 11, [0.99] * 11) == []


def test_cannot_judge_without_attention_or_from_few_looks() -> None:
    with pytest.raises(NotApplicable):
        AttentionCollapse().check(window(steps=9))
    with pytest.raises(NotEnoughData):
        check([0.9, 0.9], steps=[0, 1])
