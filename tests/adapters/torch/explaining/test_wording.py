"""Tensors, modules and numbers described in words."""

from __future__ import annotations

import torch
from torch import nn

from mothtrap.adapters.torch.explaining import wording
from mothtrap.adapters.torch.job.naming import NameBook


def test_tensors() -> None:
    assert wording.tensor(torch.zeros(2, 3)) == "float32 (2, 3)"
    assert wording.tensor(torch.zeros((), dtype=torch.int64)) == "int64 ()"
    assert wording.tensor(torch.zeros(2, device="meta")) == "float32 (2,) on meta"
    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged)
    assert wording.tensor(ragged).startswith("float32 (2, ")


def test_other_values_are_never_asked_for_their_text() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("asked")

    assert wording.value(Loud()) == "a Loud"
    assert wording.value([torch.zeros(1)] * 9).endswith("float32 (1,), ...)")
    assert wording.value(None) == "None"
    assert len(wording.value("x" * 1000)) == 80


def test_layers_are_written_as_code_makes_them() -> None:
    made = {
        nn.Conv2d(1, 4, 3): "nn.Conv2d(1, 4, 3)",
        nn.Conv2d(1, 4, (3, 5)): "nn.Conv2d(1, 4, (3, 5))",
        nn.BatchNorm1d(8): "nn.BatchNorm1d(8)",
        nn.Embedding(10, 4): "nn.Embedding(10, 4)",
        nn.GroupNorm(2, 8): "nn.GroupNorm(2, 8)",
        nn.GRU(3, 4): "nn.GRU(3, 4)",
        nn.MultiheadAttention(8, 2): "nn.MultiheadAttention(8, 2)",
        nn.ReLU(): "nn.ReLU",
    }
    assert [wording.construction(module) for module in made] == list(made.values())


def test_a_module_is_named_with_what_it_is_and_where_it_was_made() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(3, 4)

    book, model = NameBook(), Own()
    book.built(model.fc1)
    book.add_root(model)
    assert wording.named(model.fc1, book).startswith("fc1 (nn.Linear(3, 4), ")
    assert "test_wording.py:" in wording.named(model.fc1, book)
    assert wording.named(model, book).startswith("Own (")
    assert wording.named(nn.ReLU(), NameBook()) == "ReLU (nn.ReLU)"


def test_numbers_and_lists() -> None:
    assert wording.listed(range(10)) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
    assert wording.samples([7]) == "sample 7"
    assert wording.samples(range(32, 64)) == "samples 32 to 63"
    assert wording.samples([4, 2, 3]) == "samples 4, 2, 3"
    assert wording.joined(["a"]) == "a"
    assert wording.joined(["a", "b", "c"]) == "a, b and c"
    assert wording.joined([]) == ""
