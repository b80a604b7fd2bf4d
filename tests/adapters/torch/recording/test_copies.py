"""Copies restore values bit for bit; a value is copied once while it does not change."""

from __future__ import annotations

import dataclasses
import gc
import random
import warnings
from collections import OrderedDict, UserDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch

from mothtrap.adapters.torch.recording import copies
from mothtrap.adapters.torch.recording.copies import POOLED_BYTES, Copies
from mothtrap.adapters.torch.recording.values import framework_value
from mothtrap.adapters.torch.replaying.fitting import same_bits
from mothtrap.core.snapshots import Tree
from mothtrap.snapshot.tree import Opaque, value_of
from mothtrap.tracing.snapshots.blocks import Blocks

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Sample:
    """A batch class as scripts define it."""

    x: torch.Tensor
    weight: float = 1.0


class Encoding(UserDict[str, Any]):
    """A batch as tokenizers return it."""


def _made(tree: Tree, made: Copies) -> Any:
    arrays = {key: copy.array() for key, copy in made.take()[0].items()}
    return value_of(tree, arrays, framework_value(arrays))


def _back(value: Any) -> Any:
    made = Copies(1 << 26)
    return _made(made.tree(value, "it"), made)


TENSORS = {
    "bfloat16": torch.randn(3).bfloat16(),
    "conjugate": torch.randn(3, 2, dtype=torch.complex64).conj(),
    "transposed": torch.randn(3, 4).t(),
    "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "expanded": torch.ones(1).expand(5),
    "every second": torch.arange(10)[::2],
    "8-bit float": torch.randn(3).to(torch.float8_e4m3fn),
    "scalar": torch.tensor(3),
    "empty": torch.empty(0, 3),
    "truth": torch.tensor([True, False]),
    "not a number": torch.tensor([float("nan"), float("-inf"), -0.0]),
    "large": torch.randn(POOLED_BYTES),
    "large, transposed": torch.randn(300, 200).t(),
    "wanting a gradient": torch.randn(3).requires_grad_(),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_come_back(name: str) -> None:
    tensor = TENSORS[name]
    back = _back(tensor)
    assert same_bits(back, tensor.resolve_conj())
    assert back.requires_grad == tensor.requires_grad
    if name != "expanded" and name != "every second":
        assert back.stride() == tensor.stride() or not tensor.numel()


def test_sparse_tensors_come_back() -> None:
    dense = torch.randn(4, 4) * (torch.rand(4, 4) > 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning that some layouts are in beta
        made = [dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc()]
        made += [dense.to_sparse_bsr((2, 2)), dense.to_sparse_bsc((2, 2))]
        made.append(torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2)))
        for tensor in made:
            back = _back(tensor)
            assert back.layout == tensor.layout
            assert torch.equal(back.to_dense(), tensor.to_dense())
        assert not back.is_coalesced()


def test_nestings_come_back() -> None:
    x = torch.randn(2)
    given = {
        "pair": Pair(x, [1, 2.5, None]),
        "sample": Sample(x * 2),
        "ordered": OrderedDict(a=x),
        7: ("text", np.arange(3), np.float32(2), {1, 2}, b"bytes", 2**70),
    }
    back = _back(given)
    assert type(back["pair"]) is Pair
    assert type(back["sample"]) is Sample
    assert torch.equal(back["sample"].x, x * 2)
    assert back["pair"].left is back["ordered"]["a"]
    assert torch.equal(back["pair"].left, x)
    assert back["pair"].right == [1, 2.5, None]
    assert type(back["ordered"]) is OrderedDict
    assert back[7][0::2] == ("text", np.float32(2), b"bytes")
    assert np.array_equal(back[7][1], np.arange(3))
    assert back[7][5] == 2**70
    encoding = _back(Encoding(input_ids=x))
    assert type(encoding) is Encoding
    assert torch.equal(encoding["input_ids"], x)


def test_generators_of_the_scripts_own_come_back() -> None:
    made = (np.random.default_rng(3), np.random.RandomState(3), random.Random(3))
    numpy, old, python = made
    numpy.normal(), old.randn(), python.gauss(0, 1)
    own = torch.Generator().manual_seed(3)
    back = _back([*made, own])
    expected = (
        numpy.integers(1 << 40),
        old.randn(),
        python.gauss(0, 1),
        torch.rand(2, generator=own),
    )
    assert back[0].integers(1 << 40) == expected[0]
    assert (back[1].randn(), back[2].gauss(0, 1)) == expected[1:3]
    assert torch.equal(torch.rand(2, generator=back[3]), expected[3])


def test_what_stays_as_it_is_stays_one_copy() -> None:
    made, x = Copies(1 << 26), torch.randn(4, 6)
    key = made.tree(x, "x")["tensor"]  # type: ignore[index]
    held = made.take()[0]
    assert made.tree(x, "x") == {"tensor": key}
    assert made.tree({"again": x}, "x") == {"dict": [["again", {"tensor": key}]]}
    row = made.tree(x[1], "a row")
    assert row != {"tensor": key}
    x[1:2] += 1  # through a view
    assert made.tree(x, "x") != {"tensor": key}
    assert made.tree(x[1], "a row") != row
    assert held.keys() == {key}


def test_a_view_of_what_stays_as_it_is_is_one_copy() -> None:
    """`text[:, :-1]` is a new object in every step."""
    made, text = Copies(1 << 26), torch.arange(12).reshape(3, 4)
    first = made.tree(text[:, :-1], "text")
    held = made.take()[0]
    assert made.tree(text[:, :-1], "text") == first
    assert made.tree(text[:, 1:], "text") != first
    assert held


def test_arrays_of_numpy_have_no_version_and_are_compared() -> None:
    made, x = Copies(1 << 26), np.arange(5.0)
    first = made.tree(x, "x")
    held = made.take()[0]
    assert made.tree(x, "x") == first
    x[3] = np.nan
    second = made.tree(x, "x")
    assert second != first
    held |= made.take()[0]
    assert made.tree(x, "x") == second
    assert held


def test_a_copy_is_gone_with_the_last_who_holds_it() -> None:
    made, x = Copies(1 << 26), torch.randn(4)
    first = made.tree(x, "x")
    made.take()
    gc.collect()
    assert made.tree(x, "x") != first


def test_tensors_made_for_inference_are_copied_each_time() -> None:
    with torch.inference_mode():
        x = torch.ones(2)
    made = Copies(1 << 26)
    first, held = made.tree(x, "x"), made.take()[0]
    with torch.inference_mode():
        x += 1  # has no version that would reveal the change
    assert made.tree(x, "x") != first
    assert held


@pytest.mark.parametrize(
    "value",
    [
        torch.randn(3, requires_grad=True) * 2,
        torch.nn.Parameter(torch.randn(3)),
        torch.empty(3, device="meta"),
        torch.nn.Linear(2, 2),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        lambda: None,
    ],
    ids=["graph", "parameter", "meta", "module", "nested", "function"],
)
def test_what_cannot_be_kept_is_opaque(value: Any) -> None:
    assert isinstance(_back({"it": value})["it"], Opaque)


def test_a_frozen_parameter_is_kept_until_it_is_trained() -> None:
    made, weight = Copies(1 << 26), torch.nn.Parameter(torch.ones(2), requires_grad=False)
    first, held = made.tree(weight, "it"), made.take()[0]
    assert made.tree(weight, "it") == first
    weight.requires_grad_()
    assert "opaque" in made.tree(weight, "it")  # type: ignore[operator]
    weight.requires_grad_(False)
    assert made.tree(weight, "it") == first
    assert held


def test_what_cannot_be_kept_is_told_but_not_what_needs_not_be() -> None:
    made = Copies(1 << 26)
    made.tree(torch.nn.Parameter(torch.ones(2)), "a weight")
    assert not made.missing
    made.tree(torch.empty(3, device="meta"), "the mask")
    made.tree([torch.ones(100)], "the batch", most_bytes=100)
    assert [text.split(":")[0] for text in made.missing] == ["the mask", "the batch"]
    assert made.tree([torch.ones(3)], "the batch", most_bytes=100) != {"list": [None]}


def test_memory_of_large_copies_is_used_again() -> None:
    made = Copies(1 << 26)
    places = set()
    for number in range(6):
        made.tree(torch.full((POOLED_BYTES,), float(number)), "x")
        [copy] = made.take()[0].values()
        assert copy.array().data.view(np.float32)[7] == number
        places.add(copy._value.data_ptr())  # type: ignore[union-attr]
    assert len(places) <= 2


def test_memory_that_someone_looks_at_is_not_used_again() -> None:
    made = Copies(1 << 26)
    made.tree(torch.zeros(POOLED_BYTES), "x")
    view = next(iter(made.take()[0].values()))._value.numpy()  # type: ignore[union-attr]
    for _ in range(3):
        made.tree(torch.ones(POOLED_BYTES), "x")
        made.take()
    assert not view.any()


def test_memory_that_waits_is_bounded() -> None:
    blocks = Blocks(1000)
    for size in (400, 300, 400, 300, 2000):
        blocks.give_back(np.empty(size, np.uint8))
    assert blocks._bytes == sum(len(b) * s for s, b in blocks._idle.items()) <= 1000
    assert blocks.take(300).nbytes == 300


def test_many_values_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MAX_KNOWN", 8)
    made = Copies(1 << 26)
    alive = [torch.ones(2) for _ in range(40)]
    held = []
    for tensor in [*alive, *alive]:
        made.tree(tensor, "x")
        held.append(made.take()[0])
    assert len(made._known) <= 8


def test_memory_that_is_written_to_past_the_framework_is_seen_to_be() -> None:
    """Loaders that fill the same memory again change neither the object nor its version."""
    memory = np.zeros((4, 600), np.float32)
    batch, copies = torch.from_numpy(memory), Copies(1 << 20)
    trees, kept = [], {}
    for step in range(3):
        copies.batch += 1
        memory[:] = step
        trees.append(copies.tree(batch, "a batch"))
        assert copies.tree(batch, "an argument") == trees[-1]
        kept |= copies.take()[0]
    arrays = [kept[tree["tensor"]].array() for tree in trees]
    assert [array.data.view(np.float32)[0] for array in arrays] == [0, 1, 2]
    copies.batch += 1
    assert copies.tree(batch, "a batch") == trees[-1]


def test_what_is_large_is_handed_on_as_it_was_copied() -> None:
    """A ring of them would be copied once more, on the training thread."""
    copies, value = Copies(1 << 20), torch.ones(POOLED_BYTES // 4)
    tree = copies.tree(value, "a batch")
    (copy,) = copies.take()[0].values()
    array = copy.array()
    assert (array.dtype, array.shape) == ("float32", (POOLED_BYTES // 4,))
    assert copy.array().data is array.data  # type: ignore[union-attr]
    del copy
    copies.tree(torch.zeros(POOLED_BYTES // 4), "the next batch")
    assert tree == {"tensor": "s1"}
    assert (array.data.view(np.float32) == 1).all()
