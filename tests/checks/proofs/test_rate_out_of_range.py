"""Learning rates that are far from those with which the loss falls."""

from __future__ import annotations

import pytest
import torch
from tests.checks.checked import finding, network, passes, result, table

CODE = "PRE207"
LOSS = torch.nn.CrossEntropyLoss()


@pytest.mark.parametrize(("rate", "word"), [(50.0, "Lower"), (1e-4, "Raise"), (1e-6, "Raise")])
def test_a_rate_that_is_far_off_is_named(rate: float, word: str) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    found = finding(CODE, model, table(), LOSS, optimizer=optimizer)
    assert found.severity == "warning"
    assert found.fixes[0].startswith(word)
    assert found.evidence["rate"] == pytest.approx(rate)


def test_a_rate_that_works_is_no_fault_and_lies_in_the_band() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    assert passes(CODE, model, table(), LOSS, optimizer=optimizer)
    figures = result(CODE, model, table(), LOSS, optimizer=optimizer).figures
    assert 1e-4 < figures["the loss falls from"] < 1.0
    assert figures["rate"] == pytest.approx(0.1)


def test_a_loss_that_no_rate_lowers_is_no_fault() -> None:
    model = network()
    for parameter in model[0].parameters():
        torch.nn.init.zeros_(parameter)
    model[0].requires_grad_(False)  # the input has no influence
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    assert not result(CODE, model, table(), LOSS, optimizer=optimizer).found
