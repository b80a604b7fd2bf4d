"""The kernel, run element by element by Triton's interpreter on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.statistics.oracle import assert_close, expected
from tests.statistics.torch.copy_stream import SlowCopyStream, host_memory

from mothtrap.statistics.summary import Floats
from mothtrap.statistics.torch.accelerator import Accelerator

pytest.importorskip("triton")
multi_tensor = pytest.importorskip("mothtrap.statistics.torch.multi_tensor")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    multi_tensor.kernel.cache_clear()
    yield
    multi_tensor.kernel.cache_clear()


def rows_of(tensors: list[torch.Tensor]) -> Floats:
    copy_stream = SlowCopyStream(torch.device("cpu"))
    copy_stream.at_once = True
    device = Accelerator("cpu", lambda _: copy_stream, host_memory, lambda: False)
    pending = device.reduce(tensors, ("zero", "min", "max", "std", "abs_mean", "l2"))
    assert not device.slow_because
    return pending.rows()


def check(tensors: list[torch.Tensor]) -> None:
    for row_F, tensor in zip(rows_of(tensors), tensors, strict=True):
        assert_close(row_F, expected(tensor.double().numpy()))


@pytest.mark.parametrize("dtype", multi_tensor.KINDS, ids=str)
def test_rows_of_every_type_are_exact(dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    if dtype.is_floating_point:
        made = [100 * torch.randn(n, generator=draw) for n in (1, 511, 513, 1500)]
        made[2][:200] = 0
    else:
        low = max(torch.iinfo(dtype).min, -(2**40))
        high = min(torch.iinfo(dtype).max, 2**40)
        made = [torch.randint(low, high, (n,), generator=draw) for n in (1, 511, 513, 1500)]
    check([values.to(dtype) for values in made])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_nan_and_inf_are_counted_and_kept_apart(dtype: torch.dtype) -> None:
    some = torch.linspace(-3, 3, 1200).to(dtype)
    some[[0, 5, 700]], some[[1, 1199]], some[2] = torch.nan, torch.inf, -torch.inf
    beginning = torch.linspace(1000, 1001, 1500).to(dtype)
    beginning[:600] = torch.nan  # a whole tile, which allows no conclusion
    check([some, torch.full((700,), torch.nan, dtype=dtype), beginning])
    check([beginning])


def test_a_small_spread_about_a_large_mean_is_not_lost() -> None:
    near = 1e8 + 8 * torch.randint(-1, 2, (3000,), generator=torch.Generator().manual_seed(0))
    far = torch.full((3000,), 1.0)
    far[0] = 1e30
    check([near.float(), far])


def test_squares_neither_overflow_nor_vanish() -> None:
    check([torch.full((600,), 3e38), torch.full((600,), 1e-44), torch.tensor([3e38, -3e38, 1e-44])])


def test_tensors_of_several_types_and_booleans_go_together() -> None:
    check(
        [
            torch.ones(5),
            torch.tensor([True, False, True]),
            torch.arange(4, dtype=torch.int32),
            torch.ones(6).double(),
            torch.full((7,), 2.0),
        ]
    )


def test_a_tensor_that_does_not_lie_in_order_is_read_whole() -> None:
    check([torch.arange(30.0).reshape(5, 6).T, torch.arange(40.0)[::3]])


def test_one_launch_takes_all_tensors_of_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[int] = []
    reduce_pieces = multi_tensor.reduce_pieces

    def counted(flats: list[torch.Tensor], *others: object) -> torch.Tensor:
        launched.append(len(flats))
        return reduce_pieces(flats, *others)

    monkeypatch.setattr(multi_tensor, "reduce_pieces", counted)
    rows_of([torch.ones(3) for _ in range(20)] + [torch.ones(2).half()])
    assert launched == [20, 1]


def test_the_pieces_of_large_tensors_stay_few() -> None:
    for elements in (1, 10**6, 10**9, 10**11):
        span = multi_tensor.span_of(elements)
        assert span % multi_tensor.TILE.value == 0
        assert -(-elements // span) <= multi_tensor.PIECES
    np.testing.assert_equal(multi_tensor.span_of(1), 512)


def test_it_compiles_for_devices_that_are_not_here(way: str, tmp_path: Path) -> None:
    if way != "compiled":
        pytest.skip("once is enough")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    del environment["TRITON_INTERPRET"]
    script = Path(__file__).with_name("compile_for_device.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), "90"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.endswith("keeps denormals") for line in lines)
