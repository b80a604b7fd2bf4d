from __future__ import annotations

import gc
import weakref

import torch
from torch import nn

from mothtrap.tracing.jobs.identity import ByIdentity


def test_keys_are_told_apart_by_identity_and_not_by_value() -> None:
    names: ByIdentity[torch.Tensor, str] = ByIdentity()
    one, same = torch.ones(3), torch.ones(3)
    names[one] = "one"
    assert names.get(one) == "one"
    assert names.get(same) is None
    assert (one in names, same in names) == (True, False)


def test_a_key_that_dies_is_forgotten_with_its_value() -> None:
    values: ByIdentity[nn.Module, nn.Module] = ByIdentity()
    key, value = nn.ReLU(), nn.ReLU()
    reference = weakref.ref(value)
    values[key] = value
    del key, value
    gc.collect()
    assert (len(values), reference()) == (0, None)


def test_an_entry_made_again_outlives_the_first_reference() -> None:
    numbers: ByIdentity[nn.Module, int] = ByIdentity()
    key = nn.ReLU()
    numbers[key] = 1
    numbers[key] = 2
    gc.collect()
    assert numbers.get(key) == 2


def test_living_entries_are_listed_in_order_even_when_keys_die_meanwhile() -> None:
    numbers: ByIdentity[nn.Module, int] = ByIdentity()
    keys = [nn.ReLU() for _ in range(4)]
    for number, key in enumerate(keys):
        numbers[key] = number
    found = []
    for _, number in numbers.items():
        found.append(number)
        if number == 1:
            keys.clear()
    del key, _
    assert found[:2] == [0, 1]
    assert len(numbers) == 0


def test_a_gradient_that_only_torch_holds_keeps_its_entry() -> None:
    parameter = nn.Parameter(torch.ones(3))
    (parameter * 2).sum().backward()
    numbers: ByIdentity[torch.Tensor, int] = ByIdentity()
    numbers[parameter.grad] = 7
    gc.collect()
    assert numbers.get(parameter.grad) == 7
    parameter.grad = None
    assert len(numbers) == 0
