"""Data checks of loaders that are given to `mothtrap.check`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from tests.checks.checked import network, table
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import mothtrap

LOSS = nn.CrossEntropyLoss()


def rows(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 6, generator=generator)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def test_loaders_of_training_and_evaluation_are_compared() -> None:
    x, y = rows(300, 0)
    other, labels = rows(100, 1)
    other[:10] = x[:10]
    report = mothtrap.check(
        network(),
        DataLoader(TensorDataset(x, y), 16, shuffle=True),
        LOSS,
        eval_loader=DataLoader(TensorDataset(other, labels), 16),
        select=["PRE301", "PRE401"],
    )
    assert [found.code for found in report.findings] == ["PRE301"]
    scores = report.figures["PRE401"]
    assert scores["linear accuracy"] > scores["dummy accuracy"]
    assert scores["rows of evaluation"] == 100


def test_the_rows_of_a_list_of_batches_are_checked() -> None:
    batches = table(batches=10)
    x, y = batches[0]
    report = mothtrap.check(network(), [*batches, (x, (y + 1) % 3)], LOSS, select=["PRE302"])
    assert [found.code for found in report.findings] == ["PRE302"]


def test_a_generator_is_not_read_and_the_checks_say_so() -> None:
    taken = []

    def generate() -> Iterator[tuple[torch.Tensor, ...]]:
        for batch in table(batches=20):
            taken.append(batch)
            yield batch

    report = mothtrap.check(network(), generate(), LOSS, select=["PRE302"])
    [result] = report.results
    assert result.state == "not_applicable"
    assert "list of batches" in result.reason
    assert len(taken) <= 6
