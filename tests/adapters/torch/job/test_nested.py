from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from mothtrap.adapters.torch.job.nested import LEVELS, placed_tensors, tensors_in

Pair = namedtuple("Pair", ["first", "second"])
ONE = torch.ones(1)


@dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None
    states: tuple[torch.Tensor, ...] = ()


class ModelOutput(OrderedDict):
    """Imitates the output type of transformers models: keys without a value are omitted."""


@pytest.mark.parametrize(
    ("value", "places"),
    [
        (ONE, [""]),
        ((ONE, ONE), ["0", "1"]),
        ((ONE, None), ["0"]),
        ([ONE, (ONE, ONE)], ["0", "1.0", "1.1"]),
        ({"a": ONE, "b": [ONE], 3: ONE, None: ONE}, ["a", "b.0", "3", "3"]),
        (Pair(ONE, {"x": ONE}), ["first", "second.x"]),
        (Output(ONE), ["logits"]),
        (Output(ONE, ONE, (ONE, ONE)), ["logits", "loss", "states.0", "states.1"]),
        (ModelOutput(loss=ONE, logits=ONE), ["loss", "logits"]),
        (ModelOutput(logits=ONE), ["logits"]),
        (Output, []),
        ("text", []),
        ((1, {"a": {1, 2}}), []),
    ],
)
def test_a_tensor_goes_by_its_place(value: Any, places: list[str]) -> None:
    assert [place for place, _ in placed_tensors(value)] == places
    assert len(tensors_in(value)) == len(places)


def test_a_packed_sequence_is_a_named_tuple() -> None:
    packed = pack_sequence([torch.ones(2, 3)])
    assert [place for place, _ in placed_tensors(packed)] == ["data", "batch_sizes"]


def test_what_holds_itself_is_not_followed_for_ever() -> None:
    loop: list[Any] = [ONE]
    loop.append(loop)
    assert len(tensors_in(loop)) == LEVELS
