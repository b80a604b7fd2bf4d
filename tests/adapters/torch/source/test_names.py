"""The objects to which names in code refer."""

from __future__ import annotations

import ast
import sys

import pytest
import torch
from torch import nn

from mothtrap.adapters.torch.source.names import NOTHING, made_with, value_of

OUTSIDE = 5


class Slotted:
    __slots__ = ("x",)


def test_names_attributes_and_items_are_looked_up() -> None:
    layer = nn.Linear(2, 2)
    model = nn.ModuleDict({"layer": layer})
    pair, table, slotted = (1, 2), {"a": layer}, Slotted()
    frame = sys._getframe()
    known = {
        "pair[1]": 2,
        "pair[-1]": 2,
        "table['a'].weight": layer.weight,
        "model.layer": layer,
        "layer.training": True,
        "torch.float32": torch.float32,
        "OUTSIDE": 5,
        "pair[2]": NOTHING,
        "pair['a']": NOTHING,
        "slotted.x": NOTHING,
        "layer.nothing": NOTHING,
        "nowhere": NOTHING,
        "model['layer']": NOTHING,
        "pair[frame]": NOTHING,
        "len(pair)": NOTHING,
    }
    assert (model, pair, table, slotted) is not None
    for text, value in known.items():
        assert value_of(ast.parse(text, mode="eval").body, frame) is value


@pytest.mark.parametrize("name", ["__class__", "weight"])
def test_what_only_code_can_answer_stays_unknown(name: str) -> None:
    owner = property(lambda self: self)
    assert owner is not None
    text = f"owner.{name}"
    assert value_of(ast.parse(text, mode="eval").body, sys._getframe()) is NOTHING


@pytest.mark.parametrize(
    ("code", "made"),
    [
        ("model(x) - torch.ones(32, 1)", "torch.ones(32, 1)"),
        ("a + zeros((32, 4))", "zeros((32, 4))"),
        ("a + x.new_full([32], 1.0)", "x.new_full([32], 1.0)"),
        ("a + torch.full(size=(32,), fill_value=0)", "torch.full(size=(32,), fill_value=0)"),
        ("a + torch.ones(16, 1)", None),
        ("a + one_hot(y, 32)", None),
        ("a + ones", None),
        ("a[32] - b", None),
        ("w -= (", None),
    ],
)
def test_a_size_that_is_written_in_an_expression_is_found(code: str, made: str | None) -> None:
    assert made_with(code, 32) == made
