"""Recorded values replace those of a script, but only where they differ."""

from __future__ import annotations

import dataclasses
import sys
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

from mothtrap.adapters.torch.replaying.fitting import fitted, same_bits, set_variables
from mothtrap.snapshot.tree import Opaque

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Batch:
    x: Any
    length: int


class Plain(dict[str, Any]):
    """A subclass of dict, like those of tokenizers."""


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.5,
        "text",
        None,
        True,
        torch.tensor([1.0, float("nan")]),
        np.array([1, 2]),
        [1, torch.ones(2)],
        (1, 2),
        {"x": torch.ones(2)},
        Pair(torch.ones(1), 2),
        {1, 2},
    ],
)
def test_what_is_the_same_stays_the_scripts_own(value: Any) -> None:
    copy = value.clone() if isinstance(value, torch.Tensor) else value
    if isinstance(value, list):
        copy = [value[0], value[1].clone()]
    assert fitted(value, copy) is value


def test_an_integer_is_no_truth_value_and_no_float() -> None:
    assert fitted(1, True) is True
    assert type(fitted(1, 1.0)) is float


def test_what_differs_is_replaced_deep_down() -> None:
    kept = torch.ones(2)
    found = {"kept": kept, "new": [torch.zeros(2), 3]}
    result = fitted(found, {"kept": torch.ones(2), "new": [torch.full((2,), 5.0), 3]})
    assert result["kept"] is kept
    assert result["new"][0].tolist() == [5.0, 5.0]


def test_what_was_not_kept_stays() -> None:
    fake = torch.ones(1)
    assert fitted(fake, Opaque("a graph")) is fake
    assert fitted([1, fake], [2, Opaque("a graph")]) == [2, fake]
    pair = fitted(Pair(fake, 1), Pair(Opaque("a graph"), 2))
    assert pair.left is fake
    assert pair.right == 2
    assert type(pair) is Pair


def test_objects_are_compared_field_by_field() -> None:
    found = Batch(torch.ones(1), 1)
    assert fitted(found, Batch(torch.ones(1), 1)) is found
    assert fitted(found, Batch(torch.ones(1), 2)).length == 2
    assert fitted(Plain(x=1), Plain(x=2)) == Plain(x=2)


def test_a_leaf_that_is_trained_keeps_its_identity() -> None:
    leaf = torch.zeros(2, requires_grad=True)
    assert fitted(leaf, torch.ones(2)) is leaf
    assert leaf.tolist() == [1.0, 1.0]
    slice_of_data = torch.zeros(4)[1:3]
    assert fitted(slice_of_data, torch.ones(2)) is not slice_of_data


def test_bits_are_compared_and_not_numbers() -> None:
    assert same_bits(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64))


def test_variables_of_a_running_function_are_set() -> None:
    def inner() -> None:
        set_variables(sys._getframe(1), {"i": 64, "new": "made", "x": torch.full((2,), 7.0)})

    def step() -> tuple[int, list[float], Any]:
        i, x = 0, torch.zeros(2)
        inner()
        (cell,) = [x for _ in range(1)]  # before Python 3.12, x is in a closure cell
        return i, cell.tolist(), locals().get("new")

    assert step()[:2] == (64, [7.0, 7.0])


def test_globals_that_a_function_names_are_set_in_its_module() -> None:
    space: dict[str, Any] = {"scale": 1, "set_variables": set_variables, "sys": sys}
    code = "def step():\n    set_variables(sys._getframe(0), {'scale': 5})\n    return scale\n"
    exec(code, space)
    assert space["step"]() == 5
    assert space["scale"] == 5


def test_variables_of_a_module_are_set() -> None:
    space: dict[str, Any] = {"set_variables": set_variables, "sys": sys}
    exec("i = 0\nset_variables(sys._getframe(0), {'i': 3})\nj = i", space)
    assert space["j"] == 3


def test_a_generator_gets_the_recorded_state() -> None:
    found, recorded = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    assert fitted(found, recorded) is found
    expected = torch.rand(1, generator=torch.Generator().manual_seed(2))
    assert torch.equal(torch.rand(1, generator=found), expected)
