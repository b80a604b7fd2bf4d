from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import UnmaskedPadding
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.padding_attended import padding_attended


def check(share: float = 0.3, steps: int = 3, masked: bool = False) -> list[Finding]:
    seen = [
        UnmaskedPadding(
            step=step,
            module="encoder",
            module_type="BertModel",
            token=0,
            share=share,
            padded_rows=7,
            rows=8,
            masked=masked,
            location="train.py:9",
        )
        for step in range(steps)
    ]
    return padding_attended().check(window(*seen, steps=10))


def test_padding_without_a_mask_is_reported() -> None:
    [found] = check()
    assert (found.severity, found.step, found.layers) == (Severity.WARNING, 0, ("encoder",))
    assert "BertModel gets no attention_mask, but 30 % of its tokens are padding" in found.message
    assert "attention_mask=mask" in found.fixes[0]
    [found] = check(masked=True)
    assert "a mask of ones" in found.message
    assert "input_ids != pad_token_id" in found.fixes[0]


def test_quiet_on_a_little_padding() -> None:
    assert check(share=0.05) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="padding"):
        check(steps=0)
    with pytest.raises(NotEnoughData, match="2 inspected steps"):
        check(steps=1)
