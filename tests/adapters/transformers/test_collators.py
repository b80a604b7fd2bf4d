"""Collators that replace labels of -100."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

import tokenizers
import transformers
from tests.adapters.transformers.training import LENGTH, WORDS, gpt2, train
from transformers import DataCollatorForLanguageModeling, DataCollatorForSeq2Seq

from mothtrap.adapters.transformers import ADAPTER
from mothtrap.core.facts.trainers import LabelsReplaced
from mothtrap.testing.adapters import Process

pytestmark = pytest.mark.filterwarnings("ignore")


def tokenizer() -> Any:
    vocabulary = {f"w{n}": n for n in range(WORDS)}
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="w1"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="w0")


def rows(*, masked: int, labeled: bool = True) -> list[dict[str, list[int]]]:
    """Return rows of words, of which the first ones have the label -100."""
    found = []
    for start in range(64):
        words = [2 + (start + place) % (WORDS - 2) for place in range(LENGTH)]
        row = {"input_ids": words, "attention_mask": [1] * LENGTH}
        labels = [-100] * masked + words[masked:]
        found.append({**row, "labels": labels} if labeled else row)
    return found


def told(collator: Any, data: Any) -> list[LabelsReplaced]:
    process = Process("torch")

    class Collating(transformers.Trainer):
        def __init__(self, model: Any, args: Any, **given: Any) -> None:
            super().__init__(model, args, data_collator=collator, **given)

    with process.watched(ADAPTER):
        train(model=gpt2(), data=data, trainer=Collating)
    return [fact for fact in process.facts() if isinstance(fact, LabelsReplaced)]


def test_replaced_labels_are_counted_once() -> None:
    [seen] = told(DataCollatorForLanguageModeling(tokenizer(), mlm=False), rows(masked=5))
    assert (seen.calls, seen.ignored, seen.counted) == (2, 80, 80)
    assert seen.collator == "DataCollatorForLanguageModeling"
    assert seen.location is not None


@pytest.mark.parametrize(("masked", "labeled"), [(0, True), (0, False)])
def test_rows_without_ignored_labels(masked: int, labeled: bool) -> None:
    data = rows(masked=masked, labeled=labeled)
    assert told(DataCollatorForLanguageModeling(tokenizer(), mlm=False), data) == []


def test_a_collator_that_keeps_the_labels() -> None:
    assert told(DataCollatorForSeq2Seq(tokenizer()), rows(masked=5)) == []
