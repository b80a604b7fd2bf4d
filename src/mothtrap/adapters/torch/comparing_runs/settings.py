"""Settings of the framework that affect the exact bits of a result."""

from __future__ import annotations

from typing import Any

import torch

from mothtrap.statistics.torch.dtypes import type_name


def settings() -> dict[str, Any]:
    """Return the settings of this process and thread as plain values."""
    found: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "default_dtype": type_name(torch.get_default_dtype()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "autocast": {
            kind: type_name(torch.get_autocast_dtype(kind))
            for kind in ("cpu", "cuda")
            if torch.is_autocast_enabled(kind)
        },
    }
    cuda: Any = torch.cuda
    if cuda.is_initialized():
        found["cuda"] = torch.cuda.get_device_name()
        found["cudnn"] = {
            "deterministic": torch.backends.cudnn.deterministic,
            "benchmark": torch.backends.cudnn.benchmark,
            "allow_tf32": torch.backends.cudnn.allow_tf32,
        }
    return found


def take_over(recorded: dict[str, Any]) -> list[str]:
    """Apply a setting that scripts rarely set: the number of threads.

    Args:
        recorded: result of `settings` in another process.

    Returns:
        The remaining differences between this process and that one, in words.
    """
    threads = recorded.get("threads")
    if isinstance(threads, int) and 0 < threads <= 4096 and threads != torch.get_num_threads():
        torch.set_num_threads(threads)
    now = settings()
    return [
        f"{name.replace('_', ' ')} was {value!r} in the run and is {now.get(name)!r} here"
        for name, value in recorded.items()
        if name != "autocast" and now.get(name) != value
    ]
