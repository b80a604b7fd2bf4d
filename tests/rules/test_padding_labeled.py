from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import PaddingLabeled
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.padding_labeled import padding_labeled


def check(padded: int = 40, steps: int = 3) -> list[Finding]:
    seen = [
        PaddingLabeled(
            step=step,
            module="",
            module_type="BertForTokenClassification",
            padded=padded,
            labeled=100,
            location="train.py:9",
        )
        for step in range(steps)
    ]
    return padding_labeled().check(window(*seen, steps=10))


def test_labels_of_padding_are_reported() -> None:
    [found] = check()
    assert (found.severity, found.step, found.location) == (Severity.WARNING, 0, "train.py:9")
    assert found.message.startswith("40 % of the labels that count in the loss of Bert")
    assert "labels[attention_mask == 0] = -100" in found.fixes[0]


def test_quiet_on_a_few() -> None:
    assert check(padded=5) == []


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="padding"):
        check(steps=0)
    with pytest.raises(NotEnoughData, match="2 inspected steps"):
        check(steps=1)
