"""The compiled part: correct for plain values, and it declines those that it cannot handle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from tests.statistics.oracle import expected
from torch.overrides import TorchFunctionMode

from mothtrap.statistics import built
from mothtrap.statistics.digest import seed_of
from mothtrap.statistics.summary import COLUMN
from mothtrap.statistics.torch import compiled, digest

pytestmark = pytest.mark.skipif(built.arrays is None, reason="built without a C compiler")

COLUMNS = [COLUMN[n] for n in ("zero", "min", "max", "mean", "deviation_l2", "abs_sum", "l2")]
SIZES = (1, 15, 16, 17, 63, 64, 65, 2047, 2048, 2049, 5000)


@pytest.fixture(autouse=True)
def way() -> None:
    """Here only the compiled part is tested, not both ways."""


@pytest.mark.parametrize("dtype", compiled.SUMMARIZED)
@pytest.mark.parametrize("size", SIZES)
def test_every_column_of_every_length_equals_the_oracle(dtype: torch.dtype, size: int) -> None:
    drawn = torch.randn(size, generator=torch.Generator().manual_seed(size))
    tensor = torch.where(drawn > 1, 0.0, drawn + 3).to(dtype)
    row_F = compiled.summaries(compiled.places([tensor]))[0][0]
    truth_F = expected(tensor.double().numpy())
    np.testing.assert_allclose(row_F[COLUMNS], truth_F[COLUMNS], rtol=1e-6, atol=1e-12)
    assert row_F[COLUMN["count"]] == size
    assert compiled.norms(compiled.places([tensor]))[0] == pytest.approx(
        truth_F[COLUMN["l2"]], rel=1e-12
    )


@given(
    st.lists(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1),
        min_size=1,
        max_size=5,
    )
)
def test_a_row_that_is_said_to_be_right_is_right(lists: list[list[float]]) -> None:
    tensors = [torch.tensor(values, dtype=torch.float32) for values in lists]
    for tensor, row_F, right in zip(
        tensors, *compiled.summaries(compiled.places(tensors)), strict=True
    ):
        if right:
            truth_F = expected(tensor.double().numpy())
            scale = float(tensor.abs().max()) or 1.0
            np.testing.assert_allclose(
                row_F[COLUMNS], truth_F[COLUMNS], rtol=1e-5, atol=1e-7 * scale
            )


@given(
    st.lists(st.floats(allow_nan=True), min_size=1, max_size=40),
    st.sampled_from([1.0, 1e-155, 1e-300, 1e150]),
)
def test_a_row_of_float64_that_is_said_to_be_right_is_right(
    values: list[float], scale: float
) -> None:
    tensor = torch.tensor(values, dtype=torch.float64) * scale
    places_T3 = compiled.places([tensor])
    rows_TF, right_T = compiled.summaries(places_T3)
    truth_F = expected(tensor.numpy())
    l2 = compiled.norms(places_T3)[0]
    if np.isfinite(l2):
        assert l2 == pytest.approx(truth_F[COLUMN["l2"]], rel=1e-12, abs=0)
    if right_T[0]:
        largest = float(tensor.abs().max())
        np.testing.assert_allclose(
            rows_TF[0][COLUMNS], truth_F[COLUMNS], rtol=1e-9, atol=1e-12 * largest
        )
        assert rows_TF[0][COLUMN["l2"]] == pytest.approx(truth_F[COLUMN["l2"]], rel=1e-9, abs=0)


@pytest.mark.parametrize("way", ["norms", "summaries"])
def test_squares_that_vanish_make_a_row_unknown(way: str) -> None:
    tiny = torch.full((70,), 1e-170, dtype=torch.float64)
    close = 1e-150 + torch.arange(70, dtype=torch.float64) * 1e-165
    for tensor in (tiny, close):
        found = getattr(compiled, way)(compiled.places([tensor]))
        assert not (np.isfinite(found) if way == "norms" else found[1]).any()
    zeros = torch.zeros(70, dtype=torch.float64)
    nothing = compiled.places([zeros])
    assert compiled.norms(nothing).tolist() == [0.0]
    assert compiled.summaries(nothing)[1].all()


@pytest.mark.parametrize("place", [0, 7, 20, 70])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", compiled.SUMMARIZED)
def test_what_is_not_finite_shows_wherever_it_is(
    place: int, value: float, dtype: torch.dtype
) -> None:
    tensor = torch.ones(71, dtype=dtype)
    tensor[place] = value
    assert not compiled.summaries(compiled.places([tensor]))[1].any()
    assert not np.isfinite(compiled.norms(compiled.places([tensor]))).any()


@pytest.mark.parametrize("first", [1e6, -1e9, 0.0])
def test_the_first_element_is_no_bad_pivot(first: float) -> None:
    tensor = torch.full((4096,), 1e6)
    tensor[::2] += 0.125
    tensor[0] = first
    row_F = compiled.summaries(compiled.places([tensor]))[0][0]
    truth_F = expected(tensor.double().numpy())
    np.testing.assert_allclose(row_F[COLUMNS], truth_F[COLUMNS], rtol=1e-5)


def test_only_what_lies_plainly_on_the_host_is_taken() -> None:
    class Own(torch.Tensor):
        pass

    plain = torch.ones(3, 4)
    kinds = {
        0: [plain, plain[1:], plain[0, 3:], torch.nn.Parameter(plain)],
        1: [plain.bfloat16()],
        2: [plain.half()],
        3: [plain.double()],
        -1: [
            *(plain.byte(), plain.long(), plain.to_sparse(), plain.T),
            torch._neg_view(plain),
            *(torch.ones(3, device="meta"), torch.empty(0), plain.as_subclass(Own), [1.0], None),
        ],
    }
    for kind, tensors in kinds.items():
        places_T3 = compiled.places(tensors)
        assert places_T3[:, 2].tolist() == [kind] * len(tensors)
        if kind >= 0:
            expected = [[t.data_ptr(), t.numel()] for t in tensors]
            assert places_T3[:, :2].tolist() == expected


def test_memory_that_was_given_back_is_not_read() -> None:
    tensor = torch.ones(64)
    part = tensor[32:]
    tensor.untyped_storage().resize_(0)
    assert compiled.places([part])[0, 2] == -1


@pytest.mark.parametrize(
    ("arrays", "rows"),
    [
        ([[0, 4, 4]], np.empty(1)),  # there are no norms of such kinds
        ([[0, 0, 0]], np.empty(1)),  # no element
        ([[0, -4, 0]], np.empty(1)),
        ([[0, 4, 0]], np.empty(2)),  # two rows are required
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_read(
    arrays: list[list[int]], rows: np.ndarray
) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        built.arrays.norms(np.array(arrays, np.int64), rows)


def test_bytes_are_copied_past_the_dispatcher() -> None:
    tensor = torch.arange(12, dtype=torch.float16).view(3, 4)
    out_N = np.zeros(24, np.uint8)
    compiled.copy(tensor, out_N)
    assert out_N.tobytes() == tensor.numpy().tobytes()
    with pytest.raises(ValueError, match="different number of bytes"):
        compiled.copy(tensor, out_N[:-1])


@pytest.mark.parametrize("asked", ["layout", "is_cpu", "is_contiguous", "is_neg", "data_ptr"])
def test_what_a_mode_of_the_users_raises_is_no_tensors_place(asked: str) -> None:
    class Mode(TorchFunctionMode):
        def __init__(self, error: type[BaseException]) -> None:
            super().__init__()
            self.error = error

        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            attribute = getattr(func, "__self__", None)  # whose getter it is
            if (func if attribute is None else attribute).__name__ == asked:
                raise self.error
            return func(*args, **(kwargs or {}))

    with Mode(ValueError):
        assert compiled.places([torch.ones(3)])[0, 2] == -1
    with Mode(KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        compiled.places([torch.ones(3)])


@pytest.mark.parametrize("piece", [(0, 5, 0), (0, 2, 3), (0, 1, 5), (0, -1, 0), (0, 1, -1)])
def test_pieces_that_do_not_fit_are_refused_before_they_are_read(piece: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not fit the target"):
        compiled.gather(np.array([piece]), np.zeros(4, np.uint8))


LENGTHS = (*range(1, 300), 511, 512, 1023, 1024, 1025, 2048, 3071, 3072, 3073, 70_001)


@pytest.mark.parametrize("skipped", [0, 3])
def test_a_digest_is_the_xxh3_of_the_bytes_at_every_length(skipped: int) -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(0, 256, (max(LENGTHS) + skipped,), generator=generator).byte()
    tensors = [drawn[skipped : skipped + length] for length in LENGTHS]
    digest_T, taken_T = compiled.digests(tensors)
    assert taken_T.all()
    truth = [
        xxhash.xxh3_64_intdigest(t.numpy().tobytes(), seed_of("uint8", tuple(t.shape)))
        for t in tensors
    ]
    assert digest_T.tolist() == truth


@pytest.mark.parametrize("dtype", compiled.DIGESTED)
def test_type_and_shape_count_in_a_digest(dtype: torch.dtype) -> None:
    tensors = [torch.ones(6).to(dtype), torch.ones(2, 3).to(dtype), torch.ones(()).to(dtype)]
    digest_T, taken_T = compiled.digests(tensors)
    assert taken_T.all()
    assert digest_T.tolist() == [digest(tensor) for tensor in tensors]
    assert len({*digest_T.tolist()}) == 3


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_does_not_lie_plainly_has_no_digest_here() -> None:
    class Own(torch.Tensor):
        pass

    plain = torch.ones(3, 4)
    others = [
        *(plain.to_sparse(), plain.T, torch._neg_view(plain), torch.empty(0)),
        *(plain.to(torch.complex64).conj(), torch.ones(3, device="meta"), plain.as_subclass(Own)),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ]
    digest_T, taken_T = compiled.digests([*others, plain])
    assert taken_T.tolist() == [False] * len(others) + [True]
    assert digest_T[-1] == digest(plain)


@pytest.mark.parametrize("dtype", compiled.SUMMARIZED)
@pytest.mark.parametrize("size", [*SIZES, 61, 121, 512, 4096, 70_000])
def test_rows_and_digests_in_one_read_are_those_of_two(dtype: torch.dtype, size: int) -> None:
    drawn = torch.randn(size, generator=torch.Generator().manual_seed(size))
    tensors = [drawn.to(dtype), (drawn * 2).to(dtype)]
    places_T3 = compiled.places(tensors)
    rows_TF, right_T, digest_T = compiled.digested_summaries(tensors, places_T3)
    np.testing.assert_array_equal(rows_TF, compiled.summaries(places_T3)[0])
    assert right_T.all()
    assert digest_T.tolist() == [digest(tensor) for tensor in tensors]


def test_pieces_and_seeds_must_fit() -> None:
    tensor = torch.ones(3)
    places_T3 = compiled.places([tensor])
    with pytest.raises(ValueError, match="digests do not fit"):
        built.arrays.digests(places_T3, np.empty(2, np.uint64))
    for size, many in ((0, 2), (5, 2), (4, 3), (-4, 2)):
        with pytest.raises(ValueError, match="digests do not fit rows"):
            built.arrays.row_digests(np.zeros(8, np.uint8), size, 0, np.empty(many, np.uint64))
    with pytest.raises(ValueError, match="rows or seeds do not fit"):
        built.arrays.digested_summaries(places_T3, np.empty((1, 7)), np.empty(2, np.uint64))
    with pytest.raises(ValueError, match="arrays or seeds do not fit"):
        built.arrays.seeds((tensor,), lambda *_: 0, places_T3, np.empty(2, np.uint64))


def test_an_interrupt_while_a_seed_is_asked_for_is_the_users() -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    tensor = torch.ones(3)
    with pytest.raises(KeyboardInterrupt):
        built.arrays.seeds(
            (tensor,), interrupted, compiled.places([tensor]), np.empty(1, np.uint64)
        )


def test_where_arrays_lie_is_told_of_those_in_order_alone() -> None:
    arrays = [np.arange(6, dtype=np.int16).reshape(2, 3), np.zeros(0), np.array(2.5)]
    pieces = np.full((3, 3), -1, np.int64)
    built.arrays.locate(arrays, pieces)
    addresses = [array.ctypes.data for array in arrays]
    assert pieces[[0, 2], 0].tolist() == [addresses[0], addresses[2]]
    assert pieces[:, 1:].tolist() == [[12, -1], [0, -1], [8, -1]]
    with pytest.raises(ValueError, match="as many pieces"):
        built.arrays.locate(arrays[:2], pieces)
    with pytest.raises((ValueError, BufferError), match="contiguous"):
        built.arrays.locate([arrays[0].T], np.zeros((1, 3), np.int64))
    with pytest.raises(TypeError):
        built.arrays.locate([object()], np.zeros((1, 3), np.int64))  # type: ignore[list-item]
