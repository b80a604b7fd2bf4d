from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.statistics.oracle import VALUE_STATISTICS, assert_close, expected

from mothtrap.core.errors import UnknownNameError
from mothtrap.statistics.summary import COLUMN, EMPTY, columns_for, derive
from mothtrap.statistics.torch import nonfinite_counts, norms, summarize
from mothtrap.statistics.torch.chunks import HOST_CHUNK

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
            torch.uint32, torch.uint64)  # fmt: skip
FLOATS_8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)

# Sizes around the chunk length, so that heads, tails and both occur.
sizes = st.sampled_from([0, 1, 2, 5, HOST_CHUNK - 1, HOST_CHUNK, HOST_CHUNK + 3, 3 * HOST_CHUNK])
special = st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("inf"), -float("inf"), 1e30, -1e-30])


def double(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to(torch.float64).numpy()


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def assert_rows(tensors: list[torch.Tensor], statistics=VALUE_STATISTICS) -> None:
    for row, tensor in zip(summarize(tensors, statistics), tensors, strict=True):
        assert_close(row, expected(double(tensor)))


@st.composite
def float_tensors(draw) -> torch.Tensor:
    size = draw(sizes)
    values = normal(size, seed=draw(st.integers(0, 9)))
    values = values * draw(st.sampled_from([1.0, 0.0, 1e-30, 1e30, 1e-3]))
    values = values + draw(st.sampled_from([0.0, 0.0, 100.0, -1e-3]))
    for value in draw(st.lists(special, max_size=3)):
        if size:
            values[draw(st.integers(0, size - 1))] = value
    tensor = values.to(draw(st.sampled_from(FLOATS)))
    return tensor.view(3, -1).t() if size and size % 3 == 0 else tensor


@given(st.lists(float_tensors(), max_size=4))
@settings(deadline=None, max_examples=150)
def test_rows_equal_the_oracle(tensors):
    assert_rows(tensors)


@given(float_tensors(), st.sets(st.sampled_from(VALUE_STATISTICS)))
@settings(deadline=None)
def test_what_is_asked_for_is_right_whatever_else_is(tensor, statistics):
    row, wanted = summarize([tensor], statistics)[0], expected(double(tensor))
    asked = [COLUMN[name] for name in columns_for(statistics)]
    wanted_too = wanted.copy()
    wanted_too[asked] = row[asked]
    assert_close(wanted_too, wanted)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
@pytest.mark.parametrize("size", [7, 3 * HOST_CHUNK + 5])
def test_integers_and_booleans_are_numbers(dtype, size):
    tensor = (torch.arange(size) % 120).to(dtype)
    assert_rows([tensor, tensor[:0]])


def test_integers_that_float32_cannot_hold_stay_whole():
    tensor = torch.full((2 * HOST_CHUNK,), 2**24 + 1)
    row = summarize([tensor], VALUE_STATISTICS)[0]
    assert row[COLUMN["min"]] == row[COLUMN["max"]] == row[COLUMN["mean"]] == 2**24 + 1
    assert row[COLUMN["deviation_l2"]] == 0.0


@pytest.mark.parametrize("dtype", FLOATS_8)
def test_eight_bit_floats_are_read(dtype):
    tensor = normal(3000).to(dtype)
    wanted = expected(double(tensor.to(torch.float32)))
    assert_close(summarize([tensor], VALUE_STATISTICS)[0], wanted)


@pytest.mark.parametrize("dtype", [*FLOATS_8, torch.float8_e8m0fnu, torch.int8, torch.uint8])
def test_every_byte_of_a_narrow_type_is_read(dtype):
    every = torch.arange(256).to(torch.uint8).view(dtype)
    finite = every[torch.isfinite(every.to(torch.float32))]
    several = [every, finite, every.repeat(40)[3:], finite[:1], every[:0], every.view(16, 16).t()]
    for row, norm_row, tensor in zip(
        summarize(several, VALUE_STATISTICS), norms(several), several, strict=True
    ):
        wanted = expected(double(tensor.to(torch.float32)))
        assert_close(row, wanted)
        for name in ("count", "nan", "inf", "l2"):
            assert norm_row[COLUMN[name]] == pytest.approx(wanted[COLUMN[name]], rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_a_complex_tensor_is_its_parts(dtype):
    tensor = normal(2100).to(dtype) * (1 + 2j)
    wanted = expected(double(torch.view_as_real(tensor)))
    for same in (tensor, tensor.view(2, -1).t()):
        assert_close(summarize([same], VALUE_STATISTICS)[0], wanted)
    conjugated = expected(double(torch.view_as_real(tensor.conj().resolve_conj())))
    assert_close(summarize([tensor.conj()], VALUE_STATISTICS)[0], conjugated)
    assert_close(
        summarize([tensor.conj().imag], VALUE_STATISTICS)[0], expected(double(-tensor.imag))
    )


@pytest.mark.parametrize(
    ("mean", "std"), [(100.0, 0.001), (1.0, 1e-3), (-3e4, 1.0), (1e-12, 1e-16), (1e30, 1e25)]
)
@pytest.mark.parametrize("size", [100, 10 * HOST_CHUNK + 9])
def test_a_small_spread_about_a_large_mean_is_seen(mean, std, size):
    tensor = (normal(size).double() * std + mean).to(torch.float32)
    assert_rows([tensor])
    truth = double(tensor).std()
    assert derive(summarize([tensor], ("std",)), "std")[0] == pytest.approx(truth, rel=1e-5)


@pytest.mark.parametrize("value", [0.1, 1.1, -0.7, 1e-9, 1e-30, 3e38, 0.0])
@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_a_constant_tensor_has_no_spread(value, dtype):
    tensor = torch.full((3 * HOST_CHUNK + 1,), value).clamp(max=6e4).to(dtype)
    row = summarize([tensor], VALUE_STATISTICS)[0]
    assert row[COLUMN["deviation_l2"]] <= 1e-14 * row[COLUMN["l2"]]
    assert_rows([tensor])


def test_an_outlier_that_would_be_the_pivot_does_no_harm():
    tensor = normal(4 * HOST_CHUNK) * 1e-3 + 100.0
    tensor[::HOST_CHUNK] = 0.0
    assert_rows([tensor])


@pytest.mark.parametrize("size", [1e-44, 1e-38, 1e-30, 1e-20, 1e-17, 1e19, 1e30])
def test_squares_may_leave_float32(size):
    assert_rows([normal(5000) * size, (normal(5000) + 2) * size])


def test_ten_million_elements_stay_accurate():
    tensor = torch.rand(10_000_019, generator=torch.Generator().manual_seed(0))
    row, wide = summarize([tensor], VALUE_STATISTICS)[0], tensor.double().numpy()
    std = row[COLUMN["deviation_l2"]] / len(wide) ** 0.5
    assert row[COLUMN["mean"]] == pytest.approx(wide.mean(), rel=1e-6)
    assert std == pytest.approx(wide.std(), rel=1e-6)
    assert row[COLUMN["l2"]] == pytest.approx(np.linalg.norm(wide), rel=1e-6)
    assert row[COLUMN["abs_sum"]] == pytest.approx(wide.sum(), rel=1e-6)


def test_the_norm_of_ten_million_equal_elements_does_not_drift():
    tensor = torch.full((10_000_000,), 0.1)
    truth = float(tensor[0].double()) * 10_000_000**0.5
    assert norms([tensor])[0, COLUMN["l2"]] == pytest.approx(truth, rel=1e-5)


def test_scalars_empty_and_strided_tensors():
    base = normal(70, 90)
    images = normal(4, 3, 20, 20).to(memory_format=torch.channels_last)
    views = [base.t(), base[::2, ::3], base[0].expand(50, 90), base[3, 4], base[:0], images]
    assert_rows(views)
    assert summarize([], ("mean",)).shape == (0, len(COLUMN))


def sparse_coo(indices: list[int], values: list[float]) -> torch.Tensor:
    return torch.sparse_coo_tensor(
        torch.tensor([indices], dtype=torch.long), values, (6,), check_invariants=True
    )


@pytest.mark.parametrize(
    "tensor",
    [
        sparse_coo([1, 4], [2.0, 0.0]).coalesce(),
        sparse_coo([1, 1, 4], [2.0, 3.0, float("nan")]),
        sparse_coo([], []),
    ],
    ids=["coalesced", "duplicates", "nothing stored"],
)
def test_a_sparse_tensor_counts_the_zeros_that_it_leaves_out(tensor):
    rows = summarize([tensor], VALUE_STATISTICS)
    assert_close(rows[0], expected(double(tensor.to_dense())))


def test_a_tensor_without_data_is_not_captured():
    rows = summarize([torch.empty(3, device="meta"), torch.ones(3)], ("mean",))
    np.testing.assert_array_equal(rows[0], EMPTY)
    assert rows[1, COLUMN["mean"]] == 1.0


def test_a_distributed_tensor_is_its_local_shard():
    class Shard(torch.Tensor):
        def to_local(self) -> torch.Tensor:
            return torch.tensor([3.0, 4.0])

    assert norms([torch.zeros(9).as_subclass(Shard)])[0, COLUMN["l2"]] == 5.0


@pytest.mark.parametrize("dtype", FLOATS)
def test_norms_tell_overflow_from_infinity(dtype):
    huge = torch.full((3000,), torch.finfo(dtype).max / 1e9, dtype=dtype)
    broken = torch.ones(3000, dtype=dtype)
    broken[[5, 2500]], broken[7] = float("nan"), -float("inf")
    rows = norms([huge, broken, torch.zeros(3000, dtype=dtype), broken[:6]])
    np.testing.assert_array_equal(rows[:, COLUMN["nan"]], [0, 2, 0, 1])
    np.testing.assert_array_equal(rows[:, COLUMN["inf"]], [0, 1, 0, 0])
    wanted = [np.linalg.norm(double(huge) / 1e300) * 1e300, 2997**0.5, 0.0, 5**0.5]
    if dtype is not torch.float64:
        wanted[0] = np.linalg.norm(double(huge))
    np.testing.assert_allclose(rows[:, COLUMN["l2"]], wanted, rtol=1e-5)
    assert np.isnan(rows[:, COLUMN["zero"]]).all()


def test_nonfinite_counts_are_exact():
    tensor = normal(3, 5000)
    assert nonfinite_counts(tensor) == (0, 0)
    tensor[0, :7], tensor[2, 3], tensor[1, 4] = float("nan"), float("inf"), -float("inf")
    assert nonfinite_counts(tensor.requires_grad_()) == (7, 2)
    assert nonfinite_counts(torch.arange(3)) == (0, 0)


def test_training_is_not_touched():
    weight = normal(5000).add_(100).requires_grad_()
    gradient = torch.full((5000,), float("nan"))
    before, broken = weight.detach().clone(), gradient.clone()
    versions = [weight._version, gradient._version]
    state, default = torch.get_rng_state(), torch.get_default_dtype()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summarize([weight, gradient, weight * 2], VALUE_STATISTICS)
        norms([weight, gradient])
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == default
    assert torch.is_grad_enabled()
    assert weight.requires_grad
    assert weight.grad is None
    assert [weight._version, gradient._version] == versions
    assert torch.equal(weight, before)
    assert gradient.numpy().tobytes() == broken.numpy().tobytes()


def test_a_default_device_and_dtype_of_the_user_change_nothing():
    tensors = [normal(5000), torch.zeros(5000), normal(5), torch.full((4000,), float("nan"))]
    wanted = summarize(tensors, VALUE_STATISTICS)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            actual = summarize(tensors, VALUE_STATISTICS)
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(actual, wanted)


def test_it_works_in_inference_mode_and_under_autocast():
    with torch.inference_mode():
        assert_rows([normal(5000)])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_rows([normal(5000)])


def test_a_user_who_lets_numpy_raise_gets_no_error_of_ours():
    tensors = [normal(5000) * 1e-30, torch.full((5000,), float("inf")), torch.ones(3) * 1e-40]
    tensors += [torch.full((9,), 1e308, dtype=torch.float64), torch.empty(0)]
    with np.errstate(all="raise"):
        rows = summarize(tensors, VALUE_STATISTICS)
        for statistic in VALUE_STATISTICS:
            derive(rows, statistic)
    assert rows[:, COLUMN["inf"]].tolist() == [0, 5000, 0, 0, 0]


def test_an_unknown_statistic_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'l2'"):
        summarize([torch.ones(2)], ("l3",))
