from __future__ import annotations

import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trainers import LabelsReplaced, TrainerSettings
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.labels_overwritten import labels_overwritten

SETTINGS = TrainerSettings(step=0, trainer="Trainer of Hugging Face", model="GPT2LMHeadModel")
NAME = "DataCollatorForLanguageModeling"


def check(*parts: object) -> list[Finding]:
    return labels_overwritten().check(window(*parts))


def seen(counted: int) -> LabelsReplaced:
    return LabelsReplaced(
        step=0, collator=NAME, calls=2, ignored=300, counted=counted, location="t.py:40"
    )


def test_masked_labels_that_count_are_a_warning() -> None:
    [found] = check(SETTINGS, seen(290))
    assert (found.severity, found.location) == (Severity.WARNING, "t.py:40")
    assert found.message == (
        f"`{NAME}` overwrites the labels of the rows: of 300 labels that the loss was to ignore in "
        "the first 2 batches, 290 count"
    )
    assert "DataCollatorForSeq2Seq" in found.fixes[0]


def test_stays_quiet() -> None:
    assert check(SETTINGS) == []
    assert check(SETTINGS, seen(20)) == []


def test_needs_a_trainer() -> None:
    with pytest.raises(NotApplicable):
        check(seen(290))
