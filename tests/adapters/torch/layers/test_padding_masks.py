"""Padded sequences without an attention mask, in models with the arguments of Hugging Face's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn

from mothtrap.adapters.torch.layers.padding_masks import Padding, labeled, unmasked
from mothtrap.core.facts.layers import PaddingLabeled, UnmaskedPadding

PAD = 9


class Attention(nn.Module):
    def __init__(self, is_causal: bool) -> None:
        super().__init__()
        self.is_causal = is_causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Encoder(nn.Module):
    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.config = SimpleNamespace(pad_token_id=PAD)
        self.embed = nn.Embedding(10, 4)
        self.attention = Attention(causal)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.attention(self.embed(input_ids)).mean(1)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(4, 2)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.encoder(input_ids))
        return out


def tokens() -> torch.Tensor:
    ids = torch.arange(24).reshape(4, 6) % 8
    ids[1, 4:] = ids[2, 5:] = PAD
    return ids


def test_padding_without_a_mask_or_with_a_mask_of_ones() -> None:
    found = unmasked(Encoder(), (tokens(),), {})
    assert found == Padding(token=PAD, share=3 / 24, padded_rows=2, rows=4, masked=False)
    found = unmasked(Encoder(), (), {"input_ids": tokens(), "attention_mask": torch.ones(4, 6)})
    assert found is not None
    assert found.masked
    assert unmasked(Encoder(), (tokens().flip(1),), {}) is not None


@pytest.mark.parametrize("case", ["masked", "causal", "inside", "whole", "unpadded", "unknown"])
def test_nothing_is_reported(case: str) -> None:
    model, ids, more = Encoder(causal=case == "causal"), tokens(), {}
    if case == "masked":
        more = {"attention_mask": ids != PAD}
    elif case == "inside":
        ids[0, 2] = PAD
    elif case == "whole":
        ids = torch.where(torch.arange(4)[:, None] == 1, PAD, ids % 8)
    elif case == "unpadded":
        ids = ids % 8
    elif case == "unknown":
        model.config.pad_token_id = None
    assert unmasked(model, (ids,), more) is None


def test_labels_of_padding_are_counted() -> None:
    class Tagger(Encoder):
        def forward(
            self,
            input_ids: torch.Tensor,
            attention_mask: torch.Tensor | None = None,
            labels: torch.Tensor | None = None,
        ) -> torch.Tensor:
            return self.embed(input_ids).mean()

    ids = tokens()
    mask = (ids != PAD).long()
    model = Tagger()
    assert labeled(model, (ids, mask), {"labels": ids}) == (3, 24)
    assert labeled(model, (ids, mask, ids.masked_fill(mask == 0, -100)), {}) is None
    assert labeled(model, (ids, mask, ids[:, 0]), {}) is None
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            model(ids, attention_mask=mask, labels=ids).backward()
            optimizer.step()
    first, *_ = seen.observed(PaddingLabeled)
    assert (first.module_type, first.padded, first.labeled) == ("Tagger", 3, 24)
    assert not seen.observed(UnmaskedPadding)


def test_a_part_of_a_model_that_gets_no_mask_is_named() -> None:
    model = Classifier()
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            model(tokens()).sum().backward()
            optimizer.step()
    first, *_ = seen.observed(UnmaskedPadding)
    assert (first.module, first.module_type, first.padded_rows) == ("encoder", "Encoder", 2)
    assert first.location is not None
    assert "test_padding_masks.py:" in first.location
