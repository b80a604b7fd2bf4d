"""Time for which a snapshot keeps the training waiting, compared with a copy of the same bytes.

The GPT of `bench.models.gpt` (5 million parameters, Adam) is trained under observation. Just
before steps a snapshot is taken, as at the onset of something unsound: state, recorded step and
reference digests. The training thread does no more; other threads' writing is left out.
It is compared with `memcpy` of as many bytes: into memory that is new, as that of a first
snapshot is; and into memory that was used before, as it is for the states that are kept every
so many steps (`snapshot_every`), without a truth. Times are of the processor, one thread.

Run: python bench/snapshot.py [--times N]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import torch  # noqa: E402

from bench.models import gpt  # noqa: E402
from mothtrap.adapters.torch import attach_process  # noqa: E402
from mothtrap.capture.containment import Containment  # noqa: E402
from mothtrap.capture.recorder import Recorder  # noqa: E402
from mothtrap.core.config import Config  # noqa: E402
from mothtrap.core.snapshot_orders import SnapshotDraft, SnapshotOrder  # noqa: E402
from mothtrap.statistics import torch as arithmetic  # noqa: E402
from mothtrap.tracing.jobs.adapter_job import AdapterJob  # noqa: E402
from mothtrap.tracing.jobs.process_job import ProcessJob  # noqa: E402

WARM_UP = 3


class Sink:
    """Keeps the last one."""

    base_steps = ()

    def __init__(self) -> None:
        self.taken: SnapshotDraft | None = None

    def has_room(self, spare: int = 0) -> bool:  # noqa: ARG002
        return True

    def put(self, taken: SnapshotDraft) -> None:
        self.taken = taken

    def refused(self, order: SnapshotOrder, step: int, why: str) -> None:
        raise SystemExit(f"step {step}: {order.reason}: {why}")


def milliseconds(act: Callable[[], Any]) -> float:
    began = time.thread_time()
    act()
    return (time.thread_time() - began) * 1e3


def measure(times: int, *, reuse: bool) -> dict[str, float]:
    """Medians over some snapshots, and over the ratios to a copy made right after each."""
    config = Config(snapshots=10**6, snapshot_every=1 if reuse else 0)
    recorder: Recorder[torch.Tensor] = Recorder(
        arithmetic, (), Containment(print), overhead=0.0, on_first_step=lambda: None
    )
    witness = attach_process(AdapterJob(ProcessJob(recorder, config), "torch"))
    taking, sink = witness.tracer.snapshots, Sink()
    taking.connect(sink)
    net, optimizer, step = gpt.training()
    blocked: list[float] = []
    fulfil = taking.fulfil
    if reuse:
        taking.fulfil = lambda: blocked.append(milliseconds(fulfil))
    else:
        optimizer.register_step_pre_hook(
            lambda *_: blocked.append(milliseconds(lambda: taking.take("bench")))
        )
    found: dict[str, list[float]] = {"snapshot_ms": [], "memcpy_ms": [], "ratio": []}
    for turn in range(times + WARM_UP):
        step()
        taken = sink.taken
        assert taken is not None
        assert taken.state is not None
        taken.state.give_back()
        if turn >= WARM_UP:
            copied = _memcpy_ms(taken.state.size_bytes, warm=reuse)
            for name, value in zip(found, (blocked[-1], copied, blocked[-1] / copied), strict=True):
                found[name].append(value)
    witness.detach()
    medians = {name: round(statistics.median(values), 2) for name, values in found.items()}
    return medians | {
        "state_mb": round(taken.state.size_bytes / 2**20, 1),
        "parameters": sum(p.numel() for p in net.parameters()),
    }


def _memcpy_ms(size: int, *, warm: bool) -> float:
    source = np.ones(size, np.uint8)
    target = np.zeros(size, np.uint8) if warm else np.empty(size, np.uint8)
    if warm:
        target[:] = 0
    return milliseconds(lambda: np.copyto(target, source))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    torch.set_num_threads(1)
    about = {"torch": torch.__version__, "cores": os.cpu_count(), "machine": platform.machine()}
    print(json.dumps(about))
    for name, reuse in (("first", False), ("later", True)):
        print(json.dumps({"memory": name, **measure(given.times, reuse=reuse)}))


if __name__ == "__main__":
    main()
