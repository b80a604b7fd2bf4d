"""The GPU benchmark, as far as it can be tested without one."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
import torch
from bench import gpu as bench
from bench.models import gpt
from tests.statistics.torch.copy_stream import SlowCopyStream, host_memory

from mothtrap.statistics.summary import COLUMN
from mothtrap.statistics.torch.accelerator import Accelerator, PendingRows


def accelerator() -> Accelerator:
    return Accelerator("cpu", SlowCopyStream, host_memory, lambda: False, fused=False)


def test_without_a_gpu_it_says_so_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    assert bench.main() == 2
    assert capsys.readouterr().out.startswith("no GPU")


@pytest.mark.parametrize("dtype", bench.DTYPES, ids=str)
def test_right_statistics_have_small_errors(dtype: torch.dtype) -> None:
    assert bench.worst_error(accelerator(), dtype, "cpu") < 1e-9


@pytest.mark.parametrize(
    ("column", "factor", "least"), [("l2", 1.01, 0.009), ("nan", 2.0, np.inf), ("min", np.nan, 1)]
)
def test_wrong_statistics_are_told(
    monkeypatch: pytest.MonkeyPatch, column: str, factor: float, least: float
) -> None:
    rows = PendingRows.rows

    def wrong(self: PendingRows) -> np.ndarray:
        found = rows(self).copy()
        found[:, COLUMN[column]] *= factor
        return found

    monkeypatch.setattr(PendingRows, "rows", wrong)
    assert bench.worst_error(accelerator(), torch.float32, "cpu") >= least


def test_what_waits_is_counted_by_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def step() -> None:
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("something else", stacklevel=1)

    [(place, count)] = bench.waits(step, 3).items()
    assert place.startswith("test_gpu_bench.py:")
    assert count == 3
    assert modes == ["warn", "default"]


@pytest.mark.parametrize("setting", bench.SETTINGS)
def test_every_setting_has_a_line(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SETTLE_S", 0.0)
    finished: list[int] = []
    _, _, step = gpt.training("cpu", width=16, blocks=1)
    with bench.watched(setting) as unobserved:
        finish = lambda: finished.append(1)  # noqa: E731
        plain_s, watched_s = bench.pairs_of(step, 2, finish, unobserved, group=1)
    assert len(plain_s) == len(watched_s) == 2
    assert len(finished) == 8
    line = bench.row(setting, plain_s, watched_s, (3.0, 1.0, 0.5), 10**6, 1.0)
    assert line.startswith(f"| {setting} |")
    assert line.endswith("| +3 | +1 | 0.5 | 1 | 1.00 |")
