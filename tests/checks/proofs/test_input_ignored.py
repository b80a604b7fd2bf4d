"""Models that ignore their input."""

from __future__ import annotations

import torch
from tests.checks.checked import finding, network, passes, result, table
from torch import nn

LOSS = nn.CrossEntropyLoss()


class Blind(nn.Module):
    """A classifier that multiplies its input with 0."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(torch.zeros_like(x))


def test_a_model_that_never_sees_its_input_is_found() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(32, 6), (torch.arange(32) > 28).long()
    model = Blind()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    found = finding("PRE105", model, [(x, y)], LOSS, optimizer=optimizer)
    assert found.severity == "error"


def test_a_model_that_looks_is_no_fault() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    assert passes("PRE105", model, table(), LOSS, optimizer=optimizer)


def test_a_regression_that_starts_far_from_its_targets_is_not_judged() -> None:
    torch.manual_seed(0)
    x, y = torch.rand(32, 20), torch.rand(32, 1)
    model = nn.Linear(20, 1)
    model.bias.data.fill_(50.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    made = result("PRE105", model, [(x, y)], nn.MSELoss(), optimizer=optimizer)
    assert made.state == "not_enough_data"
    assert "even to" in made.reason


def test_masks_of_dropout_do_not_stand_in_for_the_input() -> None:
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    assert passes("PRE105", model, table(), LOSS, optimizer=optimizer)


def test_rows_that_are_all_alike_are_found_at_once() -> None:
    batches = [(torch.ones_like(x), y) for x, y in table()]
    assert "same input" in finding("PRE105", network(), batches, LOSS).message


def test_a_loss_that_hardly_falls_is_not_judged() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    made = result("PRE105", model, table(), LOSS, optimizer=optimizer)
    assert made.state == "not_enough_data"


class Plateau(nn.Module):
    """A classifier whose bias learns immediately, and whose weights hardly learn."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(3, 6)), nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight, self.bias)


def test_a_model_that_learns_its_inputs_late_is_no_fault() -> None:
    x, y = torch.randn(64, 6), torch.zeros(64, dtype=torch.long)
    y[:6] = 1
    x[:6, 0] += 3.0
    model = Plateau()
    optimizer = torch.optim.SGD(
        [{"params": [model.bias], "lr": 1.0}, {"params": [model.weight], "lr": 2e-4}]
    )
    made = result("PRE105", model, [(x, y)], LOSS, optimizer=optimizer)
    assert not made.found
    assert made.state == "done" or "still falls" in made.reason


class Ratings(nn.Module):
    """A model of numbers of users, as recommendations use them."""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(16, 3)

    def forward(self, users: torch.Tensor) -> torch.Tensor:
        return self.users(users)


def test_inputs_of_one_axis_are_made_alike_too() -> None:
    torch.manual_seed(0)
    model = Ratings()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    batches = [(torch.arange(16), torch.arange(16) % 3)]
    assert passes("PRE105", model, batches, LOSS, optimizer=optimizer)


class Dropped(nn.Module):
    """Multiplies its input by a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.body, self.factor = network(), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(self.factor * x)


def test_an_input_that_is_dropped_is_named_though_the_loss_hardly_falls() -> None:
    model = Dropped(0.0)
    slow = torch.optim.Adam(model.parameters(), lr=1e-4)
    assert finding("PRE105", model, table(), LOSS, optimizer=slow).severity == "error"


def test_a_slow_rate_is_no_dropped_input() -> None:
    model = Dropped(1.0)
    slow = torch.optim.Adam(model.parameters(), lr=1e-6)
    assert result("PRE105", model, table(), LOSS, optimizer=slow).found == ()


class Language(nn.Module):
    """A next-token model with position embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(9, 16), nn.Embedding(12, 16)
        self.head = nn.Linear(16, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        known = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        return self.head(torch.relu(known)).flatten(0, 1)


def test_places_of_a_sequence_are_no_random_numbers() -> None:
    torch.manual_seed(0)
    x = torch.randint(9, (16, 13))
    x[:, 3:9] = torch.tensor([1, 5, 2, 7, 8, 3])  # known from the place alone
    model = Language()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    batches = [(x[:, :-1], x[:, 1:].flatten())]
    assert passes("PRE105", model, batches, LOSS, optimizer=optimizer)


class Noisy(nn.Module):
    """A decoder that gets a noisy code, as in a variational autoencoder."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(0.01 * x + torch.randn_like(x))


def test_noise_of_the_model_does_not_stand_in_for_the_input() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(16, 6), torch.randn(16, 4)
    model = Noisy()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    made = result("PRE105", model, [(x, y)], nn.MSELoss(), optimizer=optimizer)
    assert (made.state, made.found) == ("not_applicable", ())
