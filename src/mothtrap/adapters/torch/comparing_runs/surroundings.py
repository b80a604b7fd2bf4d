"""Settings that PyTorch's results depend on: switches, threads, devices, seeds."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from mothtrap.adapters.torch.comparing_runs.random_digests import random_digests
from mothtrap.adapters.torch.comparing_runs.seeding import (
    RandomStart,
    explain,
    read_states,
)
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.ledger import LedgerValue
from mothtrap.statistics.torch.dtypes import type_name

Facts = dict[str, dict[str, LedgerValue]]

_BACKENDS: Any = torch.backends
_CUDA: Any = torch.cuda
_FLAGS: dict[str, Callable[[], Any]] = {
    "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
    "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled,
    "cudnn.benchmark": lambda: _BACKENDS.cudnn.benchmark,
    "cudnn.deterministic": lambda: _BACKENDS.cudnn.deterministic,
    "cudnn.enabled": lambda: _BACKENDS.cudnn.enabled,
    "cuda.matmul.precision": lambda: _BACKENDS.cuda.matmul.fp32_precision,
    "cudnn.conv.precision": lambda: _BACKENDS.cudnn.conv.fp32_precision,
    "mkldnn.matmul.precision": lambda: _BACKENDS.mkldnn.matmul.fp32_precision,
    "default_dtype": lambda: type_name(torch.get_default_dtype()),
    "threads": torch.get_num_threads,
    "interop_threads": torch.get_num_interop_threads,
    "anomaly_mode": torch.is_anomaly_enabled,
}


class Surroundings:
    """Settings read at the end of the first step on the training thread, in under 1 ms.

    Attributes:
        facts: as in `core.ledger.Ledger`.
        missing: facts that could not be read, with the reason.
    """

    def __init__(self, start: RandomStart) -> None:
        self.facts: Facts = {"determinism": {}, "random": {}, "hardware": {}}
        self.missing: dict[str, str] = {}
        self._start, self._end = start, read_states()
        for name, read in _FLAGS.items():
            self._add("determinism", name, read)
        for name, digest in random_digests():
            self.facts["random"][f"digest.{name.removeprefix('rng.')}"] = f"{digest:016x}"
        self._add_devices()

    def later(self) -> Facts:
        """Return the facts that take longer to collect; may run in another thread."""
        if self._start.states is None:
            return {}
        given = _numbers(sys.argv[1:])
        early = self._start.early
        return {"random": explain(self._start.states, self._end, time.time(), given, early=early)}

    def _add(self, section: str, name: str, read: Callable[[], Any]) -> None:
        try:
            self.facts[section][name] = read()
        except Exception as err:  # switches differ between versions of the framework
            self.missing[name] = in_one_line(err)

    def _add_devices(self) -> None:
        hardware = self.facts["hardware"]
        if torch.version.cuda:
            self._add("hardware", "cudnn", _BACKENDS.cudnn.version)
        if not _CUDA.is_initialized():  # the query would allocate memory on every device
            return
        for number in range(torch.cuda.device_count()):
            found = torch.cuda.get_device_properties(number)
            hardware[f"cuda.{number}"] = (
                f"{found.name}, {found.total_memory / 2**30:.0f} GiB, "
                f"compute capability {found.major}.{found.minor}"
            )


def _numbers(arguments: Iterable[str]) -> list[int]:
    """Return the integers on the command line, one of which may be a seed."""
    found = [re.fullmatch(r"(?:--?[\w.-]+=)?(\d{1,18})", argument) for argument in arguments]
    return [int(match.group(1)) for match in found if match][:16]
