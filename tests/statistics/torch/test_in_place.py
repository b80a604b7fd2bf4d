from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch
from torch import nn

from mothtrap.statistics.torch.in_place import as_array, bytes_in_place, glimpse, lies_in_place
from mothtrap.statistics.torch.raw import bytes_of


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6)[2:4],
        torch.tensor(True),
        torch.arange(4.0).to(torch.bfloat16),
        nn.Parameter(torch.ones(2)),
        torch.zeros(2, dtype=torch.complex64),
    ],
    ids=lambda tensor: str(tensor.dtype),
)
def test_the_bytes_are_the_tensors_own(tensor: torch.Tensor) -> None:
    found = bytes_in_place(tensor)
    assert found is not None
    assert found.tobytes() == bytes_of(tensor).tobytes()
    assert found.ctypes.data == tensor.data_ptr()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(0),
        torch.arange(6.0).reshape(2, 3).t(),
        torch.zeros(2, dtype=torch.complex64).conj(),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.ones(2).to_sparse(),
        torch.ones(2, device="meta"),
        torch.Tensor._make_subclass(type("Own", (torch.Tensor,), {}), torch.ones(2)),
    ],
    ids=range(7),
)
def test_what_does_not_lie_so_is_left_alone(tensor: torch.Tensor) -> None:
    assert bytes_in_place(tensor) is None
    assert glimpse(tensor) == b""


def test_a_glimpse_shows_what_writes_to_the_whole() -> None:
    for size in (1, 32, 33, 1000):
        memory = np.zeros(size, np.float32)
        tensor = torch.from_numpy(memory)
        before = glimpse(tensor)
        assert 4 <= len(before) <= 33 * 4
        memory += 1
        assert glimpse(tensor) != before
        assert glimpse(tensor.clone()) == glimpse(tensor)
    memory[-1] = 5
    assert glimpse(tensor) != glimpse(torch.ones(1000))


def test_what_does_not_lie_in_c_order_on_the_host_is_told() -> None:
    plain = torch.ones(4, 4)
    assert lies_in_place(plain)
    assert lies_in_place(torch.nn.Parameter(plain))
    assert not lies_in_place(plain[:, 1:])
    assert not lies_in_place(torch._neg_view(plain))
    assert not lies_in_place(torch.ones(2, dtype=torch.complex64).conj())
    assert not lies_in_place(plain.to_sparse())
    assert not lies_in_place(torch.empty(0))
    assert not lies_in_place(torch.ones(3, device="meta"))


def test_memory_that_was_given_back_is_not_read() -> None:
    sharded = torch.ones(8)[4:]
    assert lies_in_place(sharded)
    sharded.untyped_storage().resize_(0)
    assert not lies_in_place(sharded)
    assert bytes_in_place(sharded) is None


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3),
        torch.arange(12).reshape(3, 4).t()[1:, ::2],
        torch.ones(1, 3).expand(4, 3),
        torch.tensor(True),
        torch.empty(0, 3),
        torch.tensor([1 + 2j, 3j]).conj(),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.arange(3, dtype=torch.uint8),
        torch.arange(3.0).half(),
    ],
    ids=lambda tensor: f"{tensor.dtype}{tuple(tensor.shape)}",
)
def test_an_array_has_the_elements_of_the_tensor(tensor: torch.Tensor) -> None:
    found = as_array(tensor)
    expected = tensor.clone().resolve_conj().resolve_neg().numpy()
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.array_equal(found, expected)


def test_an_array_leaves_the_storage_resizable() -> None:
    tensor = torch.arange(4.0)
    assert as_array(tensor).sum() == 6.0
    tensor.resize_(5000)
    marked = torch.arange(4.0)
    assert marked.numpy().sum() == 6.0
    with pytest.raises(RuntimeError, match="not resizable"):  # or this test would show nothing
        marked.resize_(5000)


def test_an_array_lies_where_the_tensor_does_and_keeps_it_alive() -> None:
    tensor = torch.arange(4.0)
    found = as_array(tensor)
    found[0] = 7.0
    assert tensor[0] == 7.0
    gone = weakref.ref(tensor)
    del tensor
    assert gone() is not None
    assert found.tolist() == [7.0, 1.0, 2.0, 3.0]
    del found
    assert gone() is None


def test_a_type_that_numpy_lacks_makes_no_array() -> None:
    with pytest.raises(KeyError):
        as_array(torch.ones(2, dtype=torch.bfloat16))


def test_what_has_no_memory_on_the_host_makes_no_array() -> None:
    freed = torch.ones(2)
    freed.untyped_storage().resize_(0)
    for tensor in (freed, torch.ones(2, device="meta")):
        with pytest.raises(ValueError, match=r"in place|NULL"):
            as_array(tensor)
