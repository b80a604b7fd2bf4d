from __future__ import annotations

import numpy as np
import pytest
import torch

from mothtrap.statistics import numpy as numpy_statistics
from mothtrap.statistics.torch import digest
from mothtrap.statistics.torch.plain import flat_elements, to_host


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (3, 4)])
def test_a_digest_equals_that_of_the_same_array(dtype, shape):
    tensor = torch.ones(shape, dtype=dtype)
    assert digest(tensor) == numpy_statistics.digest(tensor.numpy())


def test_a_digest_binds_bytes_type_and_shape():
    tensor = torch.linspace(0, 1, 6)
    same = [
        tensor.clone().requires_grad_(),
        tensor.repeat(2)[:6],
        tensor.view(2, 3).t().t().view(6),
    ]
    others = [tensor.flip(0), tensor.view(2, 3), tensor.bfloat16(), tensor.half(), tensor + 1e-7]
    assert {digest(t) for t in same} == {digest(tensor)}
    assert len({digest(t) for t in [tensor, *others]}) == 6


def test_a_digest_reads_every_layout_and_type():
    dense = torch.eye(3)
    assert digest(dense.to_sparse()) == digest(dense)
    assert digest(dense.t()) == digest(dense.clone())
    values = torch.tensor([1 + 2j, 3j])
    assert digest(values.conj()) == digest(values.conj().resolve_conj()) != digest(values)
    assert digest(dense.to(torch.float8_e5m2)) != digest(dense.to(torch.float8_e4m3fn))


def test_dense_memory_is_viewed_and_not_copied():
    base = torch.zeros(2, 3, 4, 5)
    for view in (base, base.transpose(1, 3), base.permute(2, 0, 3, 1), base.requires_grad_()):
        flat, implicit_zeros = flat_elements(view)
        assert flat.data_ptr() == base.data_ptr()
        assert flat.shape == (120,)
        assert implicit_zeros == 0


def test_the_way_to_the_host_keeps_order_and_type():
    parts = [torch.arange(3), torch.tensor([0.5]), torch.empty(0), torch.arange(2) + 7]
    arrays = to_host(parts)
    assert [a.tolist() for a in arrays] == [[0, 1, 2], [0.5], [], [7, 8]]
    assert {a.dtype for a in arrays} == {np.dtype(np.float64)}
