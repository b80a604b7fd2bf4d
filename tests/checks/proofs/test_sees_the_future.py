"""Models of sequences that see the step that they predict."""

from __future__ import annotations

import pytest
import torch
from tests.checks.checked import finding, network, passes, result, table
from torch import nn
from torch.nn import functional

TOKENS = 11


class Language(nn.Module):
    """One layer of attention; `shown` = steps of the future that the mask shows."""

    def __init__(self, shown: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(TOKENS, 16), nn.Linear(16, TOKENS)
        self.place = nn.Embedding(12, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.shown = shown

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        mask = torch.ones(length, length).triu(1 + self.shown).bool()
        hidden = self.embed(tokens) + self.place(torch.arange(length))
        return self.head(self.layer(hidden, src_mask=mask))


def batches() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randint(TOKENS, (8, 13)) for _ in range(2)]


def checked(model: nn.Module) -> dict:
    def step(batch: torch.Tensor) -> torch.Tensor:
        scores = model(batch[:, :-1])
        return functional.cross_entropy(scores.reshape(-1, TOKENS), batch[:, 1:].reshape(-1))

    return {"model": model, "batches": batches(), "step": step}


def test_a_mask_that_shows_one_token_too_many_is_found() -> None:
    found = finding("PRE102", **checked(Language(1)))
    assert found.severity == "error"
    assert "layer" in found.message


def test_no_mask_at_all_is_found() -> None:
    assert finding("PRE102", **checked(Language(12))).severity == "error"


def test_a_causal_mask_is_no_fault() -> None:
    assert passes("PRE102", **checked(Language(0)))


class Flat(Language):
    """Returns one row for each token of all sequences, and weights of attention."""

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        length = tokens.shape[1]
        mask = torch.ones(length, length).triu(1 + self.shown).bool()
        hidden = self.embed(tokens) + self.place(torch.arange(length))
        scores = (hidden @ hidden.transpose(1, 2)).masked_fill(mask, -1e9)
        seen = torch.stack([scores.softmax(-1)] * 3, dim=1)
        return self.head(seen[:, 0] @ hidden).view(-1, TOKENS), seen


def flat(model: nn.Module) -> dict:
    def step(batch: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(batch[:, :-1])[0], batch[:, 1:].reshape(-1))

    return {"model": model, "batches": batches(), "step": step}


def test_weights_of_attention_are_compared_by_query() -> None:
    assert passes("PRE102", **flat(Flat(0)))


def test_an_output_with_all_tokens_on_one_axis_is_compared() -> None:
    assert finding("PRE102", **flat(Flat(1))).severity == "error"


class Convolutions(nn.Module):
    """Steps on the last axis; `right` = steps of the future that the second convolution sees."""

    def __init__(self, right: int, width: int = 16) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(TOKENS, width), nn.Conv1d(width, TOKENS, 1)
        self.first, self.second = nn.Conv1d(width, width, 3), nn.Conv1d(width, width, 3)
        self.right = right

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(tokens).transpose(1, 2)
        hidden = self.first(functional.pad(hidden, (2, 0))).relu()
        hidden = self.second(functional.pad(hidden, (2 - self.right, self.right)))
        return self.head(hidden)


def convolved(model: nn.Module) -> dict:
    def step(batch: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(batch[:, :-1]), batch[:, 1:])

    return {"model": model, "batches": batches(), "step": step}


def test_a_convolution_that_is_padded_on_both_sides_is_named() -> None:
    found = finding("PRE102", **convolved(Convolutions(1)))
    assert "the first layer that sees the future is second" in found.message


@pytest.mark.parametrize("width", [16, 12])
def test_convolutions_of_the_past_are_no_fault(width: int) -> None:
    """12 is also the number of steps."""
    assert passes("PRE102", **convolved(Convolutions(0, width)))


class Recurrent(nn.Module):
    """Steps on the first axis."""

    def __init__(self, *, both: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, 16)
        self.layer = nn.GRU(16, 8, bidirectional=both)
        self.head = nn.Linear(16 if both else 8, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.layer(self.embed(tokens).transpose(0, 1))
        return self.head(hidden).transpose(0, 1)


def test_a_recurrence_from_both_sides_is_named() -> None:
    assert "is layer" in finding("PRE102", **checked(Recurrent(both=True))).message
    assert passes("PRE102", **checked(Recurrent(both=False)))


def test_a_classifier_is_not_judged() -> None:
    made = result("PRE102", network(), table(), nn.CrossEntropyLoss())
    assert made.state == "not_applicable"


def test_targets_that_the_loss_ignores_are_left_out() -> None:
    batch = torch.randint(1, TOKENS, (8, 13))
    batch[::2, 8:] = 0

    def step(batch: torch.Tensor) -> torch.Tensor:
        targets = batch[:, 1:].masked_fill(batch[:, 1:] == 0, -1)
        scores = model(batch[:, :-1]).reshape(-1, TOKENS)
        return functional.cross_entropy(scores, targets.reshape(-1), ignore_index=-1)

    model = Language(12)
    assert finding("PRE102", model, [batch], step=step).severity == "error"
