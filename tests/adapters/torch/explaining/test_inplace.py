"""Lines of a model's own code that change tensors in place."""

from __future__ import annotations

import torch
from torch import nn

from mothtrap.adapters.torch.explaining.inplace import in_place_lines
from mothtrap.adapters.torch.job.naming import NameBook


class Careless(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.calls = 0
        self.calls += 1  # created, not called

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inner(x)
        x[0] = 0
        return self.finish(x)

    def finish(self, x: torch.Tensor) -> torch.Tensor:
        x += 1
        x.mul_(2)
        x.requires_grad_()
        return x


class Careful(Careless):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + 1


def lines(model: nn.Module) -> list[int]:
    book = NameBook()
    book.add_root(model)
    places = in_place_lines(book)
    assert all(place.rpartition(":")[0].endswith("test_inplace.py") for place in places)
    return [int(place.rpartition(":")[2]) for place in places]


def test_assignments_and_methods_in_place_are_found() -> None:
    first = Careless.forward.__code__.co_firstlineno
    assert lines(Careless()) == [first + 2, first + 6, first + 7]


def test_what_only_the_framework_does_is_not_listed() -> None:
    assert lines(nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))) == []
    assert lines(Careful()) == []


def test_code_without_a_file_is_left_out() -> None:
    scope: dict[str, type[nn.Module]] = {"nn": nn}  # type: ignore[dict-item]
    exec(
        "class Typed(nn.Linear):\n    def forward(self, x):\n        x += 1\n        return x",
        scope,
    )
    assert lines(scope["Typed"](2, 2)) == []
