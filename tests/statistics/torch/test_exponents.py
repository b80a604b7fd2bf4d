"""Counts by power of two of tensors, on the host and as an accelerator computes them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.statistics.oracle import counted_exponents

from mothtrap.statistics.exponents import BINS
from mothtrap.statistics.torch import count_exponents_of, one_byte
from mothtrap.statistics.torch.exponents import count_there

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
FLOATS_8 = tuple(getattr(torch, name) for name in dir(torch) if name.startswith("float8_"))
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.uint16)
EVERY = (*FLOATS, *FLOATS_8, *INTEGERS, torch.bool)
SIZE = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def double(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to(torch.float32 if tensor.element_size() < 4 else torch.float64).numpy()


def assert_counted(tensors: list[torch.Tensor]) -> None:
    wanted = [counted_exponents(double(tensor)) for tensor in tensors]
    assert np.array_equal(count_exponents_of(tensors), np.reshape(wanted, (len(tensors), 2, BINS)))


@st.composite
def any_bits(draw: st.DrawFn) -> torch.Tensor:
    """Return a tensor of any type with any bits, often not a view of whole memory."""
    dtype = draw(st.sampled_from(EVERY))
    size = draw(st.integers(0, 40))
    if dtype is torch.bool:
        return torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    data = draw(st.binary(min_size=size * dtype.itemsize, max_size=size * dtype.itemsize))
    tensor = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
    step = draw(st.integers(1, 3))
    return tensor.view(2, -1).t() if size % 2 == 0 and step == 3 else tensor[::step]


@given(st.lists(any_bits(), max_size=3))
@settings(deadline=None, max_examples=300)
def test_counts_equal_the_oracle(tensors: list[torch.Tensor]) -> None:
    assert_counted(tensors)


@given(any_bits())
@settings(deadline=None, max_examples=300)
def test_an_accelerator_counts_the_same(tensor: torch.Tensor) -> None:
    if tensor.numel():
        found = count_there(tensor.reshape(-1)).numpy().reshape(2, BINS)
        assert np.array_equal(found, counted_exponents(double(tensor)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, *FLOATS_8])
def test_every_bit_pattern_is_counted(dtype: torch.dtype) -> None:
    bits = torch.arange(1 << 8 * dtype.itemsize)
    tensor = bits.to(torch.uint8 if dtype.itemsize == 1 else torch.int32)
    tensor = tensor.view(dtype) if dtype.itemsize == 1 else tensor.to(torch.int16).view(dtype)
    assert_counted([tensor, tensor.repeat(3)[5:]])
    found = count_there(tensor).numpy().reshape(2, BINS)
    assert np.array_equal(found, counted_exponents(double(tensor)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_long_tensors_are_counted_in_whole(dtype: torch.dtype) -> None:
    values = torch.randn(40_003, generator=torch.Generator().manual_seed(0)) * 1e-3
    tensor = values.to(dtype)
    tensor[7::1000], tensor[8::1000] = 0.0, float("nan")
    assert_counted([tensor])


def test_deterministic_algorithms_count_the_same() -> None:
    tensor = torch.tensor([1.0, -0.25, 0.0, float("inf"), 3.0])
    before = torch.are_deterministic_algorithms_enabled()
    usual = count_there(tensor)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(count_there(tensor), usual)
    finally:
        torch.use_deterministic_algorithms(before)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_layouts_and_wrappers() -> None:
    dense = torch.tensor([[0.0, 1.5], [-3.0, 0.0]])
    wanted = counted_exponents(dense.numpy())
    same = [
        dense.to_sparse(),
        dense.to_sparse_csr(),
        dense.requires_grad_(),
        torch.nn.Parameter(dense),
    ]
    for found in count_exponents_of(same):
        assert np.array_equal(found, wanted)
    assert not count_exponents_of([torch.empty(3, device="meta"), torch.empty(0)]).any()
    assert count_exponents_of([]).shape == (0, 2, BINS)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.complex32])
def test_a_complex_tensor_is_its_parts(dtype: torch.dtype) -> None:
    tensor = torch.tensor([3 - 4j, 0 + 1e-3j]).to(dtype)
    parts = torch.view_as_real(tensor)
    assert np.array_equal(count_exponents_of([tensor]), count_exponents_of([parts]))
    conjugated = count_exponents_of([tensor.conj(), tensor.conj().imag])
    assert np.array_equal(conjugated[0], counted_exponents(double(torch.tensor([3.0, 4.0, -1e-3]))))
    assert np.array_equal(conjugated[1], counted_exponents(double(-tensor.imag)))


@pytest.mark.parametrize("dtype", [*FLOATS_8, torch.int8, torch.uint8, torch.bool])
def test_a_byte_stands_for_what_torch_reads_in_it(dtype: torch.dtype) -> None:
    few = torch.tensor([0, 1, 1, 0]).to(dtype)
    (tally,) = one_byte.tallies([few])
    assert one_byte.values(dtype)[np.repeat(np.arange(256), tally)].tolist() == sorted(
        double(few).tolist()
    )
