"""Sampling of machine metrics once a second, in the launcher's process."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from mothtrap.store.machine_log import MachineLog, Reading

EVERY_S = 1.0
WRITE_EVERY = 5
"""Number of samples written together: a batch takes a few hundred bytes."""


class MachineSampler:
    """A thread that samples machine metrics until it is closed; errors are ignored.

    Args:
        attempt: folder of the attempt.
        say: prints one line for the user.
    """

    def __init__(self, attempt: Path, say: Callable[[str], None]) -> None:
        self._say, self._ended = say, threading.Event()
        self._log = MachineLog(attempt)
        self._disk, self._rates, self._gpus = attempt, Rates(), gpus()
        self._waiting: list[Reading] = []
        self._thread = threading.Thread(target=self._run, name="mothtrap machine", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop sampling, and write the remaining samples."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            psutil.cpu_percent()  # the first call has no reference
            count = 0
            while not self._ended.wait(EVERY_S):
                self._waiting += sample(self._disk, self._rates, self._gpus)
                count += 1
                if count % WRITE_EVERY == 0:
                    self._write()
            self._write()
            self._log.close()
        except Exception as err:  # errors of the system must not affect the job
            self._say(f"mothtrap: stopped sampling the machine ({type(err).__name__})")

    def _write(self) -> None:
        self._log.append(self._waiting)
        self._waiting = []


class Rates:
    """Rates in bytes per second, from increasing counters."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float]] = {}

    def of(self, name: str, time_s: float, count: float) -> Iterator[Reading]:
        """Yield the rate since the last call, except on the first call."""
        before = self._before.get(name)
        self._before[name] = time_s, count
        if before is not None and time_s > before[0] and count >= before[1]:
            yield Reading(time_s, name, "", (count - before[1]) / (time_s - before[0]))


def sample(disk: Path, rates: Rates, devices: list[Any]) -> list[Reading]:
    """Return the current machine metrics.

    Percentages are 0 to 100; memory is in bytes, rates in bytes per second.

    Args:
        disk: a folder on the disk of the run.
        rates: rates of earlier calls.
        devices: GPUs, as `gpus` returns them.
    """
    now_s, memory = time.time(), psutil.virtual_memory()
    found = [
        Reading(now_s, "cpu_percent", "", psutil.cpu_percent()),
        Reading(now_s, "memory_used", "", float(memory.total - memory.available)),
        Reading(now_s, "memory_percent", "", memory.percent),
        Reading(now_s, "disk_free", "", float(psutil.disk_usage(str(disk)).free)),
    ]
    counters = psutil.disk_io_counters()
    if counters is not None:
        found += rates.of("disk_read", now_s, counters.read_bytes)
        found += rates.of("disk_write", now_s, counters.write_bytes)
    network = psutil.net_io_counters()
    if network is not None:
        found += rates.of("network_received", now_s, network.bytes_recv)
        found += rates.of("network_sent", now_s, network.bytes_sent)
    for number, device in enumerate(devices):
        found += _of_gpu(now_s, str(number), device)
    return found


def gpus() -> list[Any]:
    """Return the NVML handles; empty without an NVIDIA GPU or the extra `gpu`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pynvml
        pynvml.nvmlInit()
        return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except Exception:  # errors of the import, or of a missing driver
        return []


def _of_gpu(now_s: float, number: str, device: Any) -> Iterator[Reading]:
    import pynvml

    try:
        used = pynvml.nvmlDeviceGetMemoryInfo(device)
        use = pynvml.nvmlDeviceGetUtilizationRates(device)
    except pynvml.NVMLError:
        return
    yield Reading(now_s, "gpu_percent", number, float(use.gpu))
    yield Reading(now_s, "gpu_memory_used", number, float(used.used))
    yield Reading(now_s, "gpu_memory_percent", number, 100.0 * used.used / max(used.total, 1))


def begin(attempt: Path, say: Callable[[str], None]) -> MachineSampler | None:
    """Start a sampler; return None if the run cannot be written."""
    try:
        return MachineSampler(attempt, say)
    except OSError as err:
        say(f"mothtrap: cannot sample the machine ({err.strerror})")
        return None
