from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.statistics.torch.test_rows import FLOATS, FLOATS_8, INTEGERS, normal

from mothtrap.statistics import numpy as arrays
from mothtrap.statistics.dtypes import dtype_of
from mothtrap.statistics.torch import copy_bytes, describe, digest
from mothtrap.statistics.torch.raw import gather_bytes


def copied(tensor: torch.Tensor) -> np.ndarray:
    dtype, shape, size = describe(tensor)
    out_N = np.empty(size + 1, np.uint8)[1:]  # not aligned, because it follows another tensor
    copy_bytes(tensor, out_N)
    return out_N.copy().view(dtype_of(dtype)).reshape(shape)


@pytest.mark.parametrize("dtype", [*FLOATS, *FLOATS_8, *INTEGERS, torch.bool, torch.complex64])
def test_every_type_comes_back_as_it_is(dtype: torch.dtype) -> None:
    tensor = (normal(4, 6) * 3).to(dtype)
    found = copied(tensor)
    assert found.shape == (4, 6)
    assert found.tobytes() == tensor.view(torch.uint8).numpy().tobytes()
    if not tensor.is_complex():
        assert found.astype(np.float64).tolist() == tensor.to(torch.float64).tolist()


@pytest.mark.parametrize(
    "tensor",
    [
        normal(3, 4).t(),
        normal(2, 3, 4, 5).to(memory_format=torch.channels_last),
        normal(6)[::2],
        normal(3).expand(4, 3),
        torch.tensor(2.5),
        torch.empty(0, 3),
        normal(3).to(torch.complex64).conj(),
        normal(3, 3).relu().to_sparse(),
        torch.nn.Parameter(normal(3)),
    ],
    ids=["transposed", "channels last", "strided", "expanded", "scalar", "empty", "conjugate",
         "sparse", "parameter"],
)  # fmt: skip
def test_every_layout_comes_in_c_order(tensor: torch.Tensor) -> None:
    dense = tensor.detach().to_dense().resolve_conj()
    found = copied(tensor)
    assert found.shape == tuple(tensor.shape)
    assert found.tobytes() == dense.numpy().tobytes()
    assert arrays.digest(found) == digest(tensor)


@pytest.mark.parametrize("large", [3, 1 << 21])  # the second is written with non-temporal stores
def test_many_tensors_lie_where_they_were_wanted(large: int) -> None:
    tensors = [
        normal(5).to(torch.bfloat16),
        normal(large),
        torch.empty(0, 3),
        normal(3, 4).t(),
        normal(3, 3).relu().to_sparse(),
        torch.tensor(True),
        torch.arange(large + 17, dtype=torch.uint8)[1:],
    ]
    sizes = [describe(tensor)[2] for tensor in tensors]
    begins = [7 + sum(sizes[:place]) + 3 * place for place in range(len(tensors))]
    out_N = np.full(begins[-1] + sizes[-1] + 5, 255, np.uint8)
    gather_bytes(tensors, begins, out_N)
    for tensor, begin, size in zip(tensors, begins, sizes, strict=True):
        assert out_N[begin : begin + size].tobytes() == copied(tensor).tobytes()
        assert out_N[begin + size : begin + size + 3].tolist() == [255] * 3


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3).T, np.arange(3, dtype=">i4"), np.float32(3).reshape(()),
     np.array([True, False])],
)  # fmt: skip
def test_arrays_of_numpy_too(array: np.ndarray) -> None:
    dtype, shape, size = arrays.describe(array)
    out_N = np.empty(size, np.uint8)
    arrays.copy_bytes(array, out_N)
    assert out_N.view(dtype_of(dtype)).reshape(shape).tolist() == array.tolist()
