"""Capture on a CUDA device: accuracy, waiting, and cost of a step.

Four tables. "Kernel": the largest error of a statistic against numpy in float64, relative as
promised in `statistics/summary.py`, and the speed at which one large tensor is read, beside that
of a plain copy on the device, which reads and writes each byte. "Waiting": under
`torch.cuda.set_sync_debug_mode("warn")`, how often a step of a training waits for the device, and
where mothtrap does; what waits for nothing but a copy that is on its way anyhow does not show
there. "Work": kernels and copies that are launched in a step. "Steps": step times with and
without mothtrap, paired in one process as in `capture.py`, with the device idle before and
after each measured group; the bytes brought over, and the time that PCIe takes for them at the
rate measured first, say below what the raw line cannot fall.

Run: python bench/gpu.py [--pairs N] [--width N --blocks N]
Exits with 2 and one line where there is no such device.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

from bench.capturing.figures import interval, median_of  # noqa: E402
from bench.capturing.hooks import hooks_out_and_in  # noqa: E402
from bench.capturing.pairing import SETTLE_S, run  # noqa: E402
from bench.models import gpt  # noqa: E402
from mothtrap.adapters.torch import ADAPTER  # noqa: E402
from mothtrap.core.config import Config  # noqa: E402
from mothtrap.session import launch  # noqa: E402
from mothtrap.session.worker import Worker  # noqa: E402
from mothtrap.statistics import numpy as oracle  # noqa: E402
from mothtrap.statistics.summary import COLUMN  # noqa: E402
from mothtrap.statistics.torch.accelerator import Accelerator  # noqa: E402

Unobserved = Callable[[], AbstractContextManager[None]]
EVERY_TENSOR = ["gradient:*", "weight:*", "bias:*"]
SETTINGS: dict[str, dict[str, Any]] = {
    "hooks only": {"capture": "off", "snapshots": 0},
    "default": {},
    "default, no snapshots": {"snapshots": 0},
    "all statistics": {"overhead": 0.0, "capture": "everything", "snapshots": 0},
    "raw gradients and weights": {
        "overhead": 0.0,
        "on_full": "block",
        "queue_mb": 4096.0,
        "snapshots": 0,
        "collections": {"all": {"tensors": EVERY_TENSOR, "raw": True}},
    },
}
ALL = ("nan", "inf", "zero", "min", "max", "std", "abs_mean", "l2")
DTYPES = (
    *(torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.float8_e4m3fn),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
)
LARGE = 1 << 26
WARM_UP_STEPS, GROUP = 120, 10
"""Steps before anything is counted (looks are dense in the first hundred), and of a side."""


def samples(dtype: torch.dtype) -> list[torch.Tensor]:
    """Tensors of many lengths and of every kind of trouble, on the host."""
    draw = torch.Generator().manual_seed(0)
    sizes = (1, 511, 512, 513, 4097, 1_000_003)
    made = [torch.randn(size, generator=draw) for size in sizes]
    if not dtype.is_floating_point:
        return [(100 * values).abs().to(dtype) for values in made]
    near = 1000 + made[4]
    bad = made[5].clone()
    bad[::1000], bad[7], bad[8] = torch.nan, torch.inf, -torch.inf
    found = [*made, near, bad, torch.full((700,), torch.nan), torch.zeros(33)]
    found += [made[5][: 1000 * 1000].reshape(1000, 1000).T, 1e-30 * made[4], 1e30 * made[4]]
    return [values.to(dtype) for values in found]


def worst_error(accelerator: Accelerator, dtype: torch.dtype, device: str) -> float:
    """The largest relative error of any statistic over the samples; counts must be equal."""
    tensors = samples(dtype)
    pending = accelerator.reduce([values.to(device) for values in tensors], ALL)
    accelerator.send()
    accelerator.settle()
    wanted = oracle.summarize([values.double().numpy() for values in tensors], ALL)
    worst = 0.0
    for row, want in zip(pending.rows(), wanted, strict=True):
        for name in ("count", "nan", "inf", "zero"):
            if row[COLUMN[name]] != want[COLUMN[name]]:
                return np.inf
        finite = max(1.0, want[COLUMN["count"]] - want[COLUMN["nan"]] - want[COLUMN["inf"]])
        scale = {"mean": want[COLUMN["abs_sum"]] / finite}
        for name in ("min", "max", "mean", "deviation_l2", "abs_sum", "l2"):
            got, right = row[COLUMN[name]], want[COLUMN[name]]
            if np.isnan(got) != np.isnan(right):
                return np.inf
            off = 0.0 if got == right or np.isnan(right) else abs(got - right)
            worst = max(worst, off / (scale.get(name, abs(right)) or 1.0))
    return worst


def gigabytes_per_s(work: Callable[[], object], size: int) -> float:
    """The rate of some work on the device, the best of ten."""
    best = np.inf
    for _ in range(10):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        work()
        ended.record()
        ended.synchronize()
        best = min(best, began.elapsed_time(ended))
    return size / 1e6 / best


def kernel_table() -> float:
    """Print how right and how fast the reductions are; return GB/s to pinned memory."""
    print("| type | largest relative error | read, GB/s | copy on the device, GB/s |")
    print("|---|---|---|---|")
    accelerator = Accelerator()
    for dtype in DTYPES:
        error = worst_error(accelerator, dtype, "cuda")
        large = torch.ones(LARGE, device="cuda").to(dtype)
        other = torch.empty_like(large)
        reads = gigabytes_per_s(lambda: accelerator.reduce([large], ALL), large.nbytes)  # noqa: B023
        copies = gigabytes_per_s(lambda: other.copy_(large), 2 * large.nbytes)  # noqa: B023
        print(f"| {str(dtype)[6:]} | {error:.1e} | {reads:.0f} | {copies:.0f} |", flush=True)
        accelerator.send()
        accelerator.settle()
    print(f"\nKernel: {accelerator.slow_because or 'Triton'}.")
    source = torch.ones(LARGE, device="cuda")
    host = torch.empty(LARGE, pin_memory=True)
    rate = gigabytes_per_s(lambda: host.copy_(source, non_blocking=True), source.nbytes)
    print(f"Device to pinned memory: {rate:.1f} GB/s.\n")
    return rate


@contextmanager
def watched(setting: str) -> Iterator[Unobserved]:
    """Watch all training runs of this process inside a block; yield a context without hooks."""
    with tempfile.TemporaryDirectory() as folder:
        config = msgspec.convert({**SETTINGS[setting], "runs_dir": folder}, Config)
        worker = Worker(
            lambda: launch.create("bench", ["bench"], config, numbered=True),
            config,
            ADAPTER.arrays,
            print,
        )
        with hooks_out_and_in() as unobserved:
            worker.attach(ADAPTER)
        try:
            yield unobserved
        finally:
            worker.close()


def waits(step: Callable[[], None], steps: int) -> Counter[str]:
    """Where steps wait for the device, by file and line."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(steps):
                step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    about = [w for w in told if "synchroniz" in str(w.message)]
    return Counter(f"{Path(w.filename).name}:{w.lineno}" for w in about)


def launches(step: Callable[[], None], steps: int) -> tuple[float, float]:
    """Kernels and copies of a step."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    names = [event.name for event in seen.events()]
    copies = sum(name.startswith(("Memcpy", "Memset")) for name in names)
    return (len(names) - copies) / steps, copies / steps


def pairs_of(
    step: Callable[[], None],
    pairs: int,
    finish: Callable[[], None],
    unobserved: Unobserved,
    group: int = GROUP,
) -> tuple[list[float], list[float]]:
    """Seconds of plain and watched steps, by pair."""
    times: dict[str, list[float]] = {"plain": [], "watched": []}

    def timed() -> float:
        run(step, 1)
        finish()
        began = time.perf_counter()
        run(step, group)
        finish()
        return (time.perf_counter() - began) / group

    for pair in range(pairs):
        for side in ("plain", "watched") if pair % 2 else ("watched", "plain"):
            if side == "plain":
                with unobserved():
                    times[side].append(timed())
            else:
                times[side].append(timed())
                time.sleep(SETTLE_S)
    return times["plain"], times["watched"]


def step_tables(pairs: int, width: int, blocks: int, rate: float) -> None:
    """Print the effect of each setting on a step."""
    _, _, step = gpt.training("cuda", width, blocks)
    run(step, GROUP)  # memory and kernels are found in the first ones
    kernels, copies = launches(step, GROUP)
    plain_waits = sum(waits(step, GROUP).values()) / GROUP
    print(f"Plain: {kernels:.0f} kernels, {copies:.0f} copies, {plain_waits:.1f} waits a step.\n")
    print("| setting | plain ms | watched ms | ratio | kernels | copies | waits | MB | floor ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    places: dict[str, Counter[str]] = {}
    for setting in SETTINGS:
        model, _, step = gpt.training("cuda", width, blocks)
        with watched(setting) as unobserved:
            run(step, WARM_UP_STEPS)
            torch.cuda.synchronize()
            own = waits(step, GROUP)
            more_kernels, more_copies = launches(step, GROUP)
            plain_s, watched_s = pairs_of(step, pairs, torch.cuda.synchronize, unobserved)
        places[setting] = own
        raw = 2 * sum(p.nbytes for p in model.parameters()) if "raw" in setting else 0
        work = (more_kernels - kernels, more_copies - copies, sum(own.values()) / GROUP)
        print(row(setting, plain_s, watched_s, work, raw, rate), flush=True)
    print("\nWhere it waits, in ten steps:")
    for setting, own in places.items():
        print(f"- {setting}: {', '.join(f'{w} {n}x' for w, n in own.most_common()) or 'nowhere'}")


def row(
    setting: str,
    plain_s: Sequence[float],
    watched_s: Sequence[float],
    work: tuple[float, float, float],
    raw_bytes: int,
    rate: float,
) -> str:
    """Return a line of the table of steps."""
    ratios = [w / p for w, p in zip(watched_s, plain_s, strict=True)]
    low, high = interval(median_of(ratios), [len(ratios)])
    kernels, copies, waited = work
    return (
        f"| {setting} | {1e3 * statistics.median(plain_s):.2f} "
        f"| {1e3 * statistics.median(watched_s):.2f} "
        f"| {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}] "
        f"| +{kernels:.0f} | +{copies:.0f} | {waited:.1f} "
        f"| {raw_bytes / 1e6:.0f} | {raw_bytes / 1e6 / rate:.2f} |"
    )


def main() -> int:
    """Print the tables; 2 where there is no device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--blocks", type=int, default=12)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print(f"no GPU: torch {torch.__version__} finds no CUDA device; nothing was measured")
        return 2
    size = sum(p.numel() for p in gpt.GPT(arguments.width, arguments.blocks).parameters())
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}; GPT of {size:,} parameters; "
        f"{arguments.pairs} pairs; ratio = median of watched / plain [95 % interval]\n"
    )
    rate = kernel_table()
    step_tables(arguments.pairs, arguments.width, arguments.blocks, rate)
    return 0


if __name__ == "__main__":
    sys.exit(main())
