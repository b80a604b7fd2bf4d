"""Learning rates that are far from the rates at which the loss falls."""

from __future__ import annotations

import pytest
import torch
from tests.checks.checked import finding, network, passes, result, table

CODE = "PRE207"
LOSS = torch.nn.CrossEntropyLoss()


@pytest.mark.parametrize(
    ("rate", "word"),
    [
        (50.0, "Lower"),
        pytest.param(1e-4, "Raise", marks=pytest.mark.full),
        pytest.param(1e-6, "Raise", marks=pytest.mark.full),
        (1e-7, "Raise"),
    ],
)
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
    made = result(CODE, model, table(), LOSS, optimizer=optimizer)
    assert (made.state, made.found) == ("not_enough_data", ())
    assert "higher learning rates help little" in made.reason


def pictures(batches: int = 10) -> list[tuple[torch.Tensor, ...]]:
    """Return noisy pictures of ten classes."""
    torch.manual_seed(0)
    labels = torch.randint(10, (32 * batches,))
    x = torch.randn(10, 1, 8, 8)[labels] + torch.randn(len(labels), 1, 8, 8)
    return list(zip(x.split(32), labels.split(32), strict=True))


def small_cnn() -> torch.nn.Sequential:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        *(torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Flatten(), torch.nn.Linear(128, 10)),
    )


def test_a_rate_with_which_the_loss_jumps_first_is_named() -> None:
    model = small_cnn()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    found = finding(CODE, model, pictures(), LOSS, optimizer=optimizer)
    assert found.fixes == ("Lower the learning rate.",)


def test_a_small_network_with_the_default_rate_is_no_fault() -> None:
    model = small_cnn()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    assert passes(CODE, model, pictures(), LOSS, optimizer=optimizer)


def test_a_loss_that_is_0_from_the_start_proves_nothing() -> None:
    batches = [(x, torch.rand(len(x), 1)) for x, _ in table()]
    made = result("PRE207", torch.nn.Linear(6, 1), batches, torch.nn.CrossEntropyLoss())
    assert made.state == "not_applicable"
    assert "0 from the start" in made.reason
