"""Runs for the detailed views: a module tree, raw values, and eight ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.reader.runs import raw
from tests.web.made_runs import MadeRun

from mothtrap.core.fact import Fact
from mothtrap.core.facts.samples import DataSeen, SampleBatch, SamplesNamed, SamplesTaken
from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.packed import pack
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.replays import StoredReplay
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.summary import COLUMN, WIDTH
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog

STEPS = 90
BLOCKS = 12
NAMES = (
    "stem.conv.weight",
    *(f"blocks.{b}.attn.{p}.weight" for b in range(BLOCKS) for p in "qkv"),
    "head.weight",
)
MAPS = "activation:features"
"""Also kept at the evaluation after the last step."""
Norms = npt.NDArray[np.float64]


def norms(seed: int = 0) -> Norms:
    """Norms of gradients, shape (STEPS, tensors), with zeros, NaN and cells without a row."""
    random = np.random.default_rng(seed)
    value_ST = 10 ** random.normal(0, 1.5, (STEPS, len(NAMES)))
    value_ST[20:30, 3] = 0.0
    value_ST[70:, 5] = np.nan
    return value_ST


def captured() -> npt.NDArray[np.bool_]:
    """Cells that have a row: `head.weight` is captured at every third step."""
    there_ST = np.ones((STEPS, len(NAMES)), np.bool_)
    there_ST[:, -1] = np.arange(STEPS) % 3 == 0
    return there_ST


def make_deep(runs: Path) -> None:
    """Write the runs `deep`, `values` and `ranks`."""
    deep = MadeRun(runs / "deep", created_s=0.6)
    _write(deep.folder, norms(), range(STEPS))
    deep.find()
    deep.end(closes_worker=False)
    values = MadeRun(runs / "values", created_s=0.55)
    _write_values(values.folder)
    (values.path / "snapshots" / "00000008").mkdir(parents=True)
    layout.write_replay(values.attempt, StoredReplay(step=8, lines=(), result=REPLAY))
    values.end(closes_worker=False)
    ranks = MadeRun(runs / "ranks", created_s=0.5)
    folders = [ranks.folder, *(layout.claim_worker(ranks.attempt)[1] for _ in range(7))]
    for rank, folder in enumerate(folders):
        _write(folder, norms(rank), range(30))
    ranks.find()
    ranks.end(closes_worker=False)


def kept() -> dict[str, npt.NDArray[Any]]:
    """Values that the run `values` keeps at its steps 0 and 8, by kind and name."""
    random = np.random.default_rng(7)
    large = random.normal(0, 1, (300, 500)).astype(np.float32)
    large[17, 23] = np.nan
    scores = random.normal(0, 1, (2, 4, 6, 6))
    return {
        "weight:conv.weight": random.normal(0, 1, (8, 3, 3, 3)).astype(np.float32),
        "weight:fc.weight": large,
        "input:model": random.random((5, 3, 8, 8), np.float32),
        "activation:attn": np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True),
        "label:train.py:4": random.integers(0, 4, 16),
        "output:head": random.normal(0, 1, (16, 4)).astype(np.float32),
        MAPS: random.normal(0, 1, (2, 6, 5, 5)).astype(np.float32),
    }


def counts(step: int) -> npt.NDArray[np.int64]:
    """Counts of exponents of `gradient:fc.weight` at a step of the run `values`."""
    count_2B = np.zeros((2, 64), np.int64)
    count_2B[:, 30 + step] = 100 * (step + 1)
    count_2B[1, 20] = 7
    return count_2B


def _samples(step: int) -> tuple[Fact, ...]:
    """Facts of a batch: four files, of which the first is in every batch; a snapshot at step 8."""
    indices = [0, 3 * step + 1, 3 * step + 2, 3 * step + 3]
    named = SamplesNamed(
        step=step, data=0, indices=pack(indices), names=tuple(f"img{i:03}.png" for i in indices)
    )
    batch = SampleBatch(loader="train.py:3", rows=4, data=0, indices=pack(indices), pass_number=1)
    taken = SamplesTaken(step=step, batches=(batch,))
    seen = DataSeen(step=step, data=0, loader="train.py:3", kind="ImageFolder", length=60)
    kept = SnapshotKept(step=step, state_step=step, reason="request", folder="snapshots/00000008")
    return (*((seen,) if step == 0 else ()), named, taken, *((kept,) if step == 8 else ()))


REPLAY = {
    "step": 8,
    "match": True,
    "losses": [88.5],
    "losses_in_run": [88.5],
    "module": "head.softmax",
    "operation": "torch.log",
    "location": "train.py:4",
    "rows": [2],
    "samples": ["img026.png"],
    "told": ["`torch.log` of 0 is -Inf"],
    "notes": [],
    "nonfinite_gradients": ["head.weight"],
}


def _write_values(folder: Path) -> None:
    whole = kept()
    infos = []
    for identity, value in whole.items():
        kind, _, name = identity.partition(":")
        infos.append(TensorInfo(kind=kind, name=name, shape=value.shape, dtype=str(value.dtype)))
    infos.append(TensorInfo(kind="gradient", name="fc.weight", shape=(300, 500), dtype="float32"))
    name = "exponents(gradient:fc.weight)"
    infos.append(TensorInfo(kind="metric", name=name, shape=(2, 64), dtype="int64"))
    log = WorkerLog(folder)
    for step in range(12):
        summary_TF = np.full((1, WIDTH), np.nan)
        for field, value in {"count": 150_000, "nan": 3, "inf": 0, "zero": 40, "l2": 2.0}.items():
            summary_TF[0, COLUMN[field]] = value
        blocks = [(len(whole) + 1, counts(step))]
        blocks += list(enumerate(whole.values())) if step % 8 == 0 else []
        log.append(
            [
                StepRecord(
                    key=StepKey(step=step, mode_step=step),
                    wall_s=1e9 + step,
                    tensor_T=np.array([len(whole)], np.uint32),
                    summary_TF=summary_TF,
                    scalars=(Scalar(name="loss", of="train.py:4 SGD", value=1.0),),
                    defined=tuple(enumerate(infos)) if step == 0 else (),
                    raw=(raw(*blocks),),
                    observations=_samples(step),
                )
            ]
        )
    after = StepKey(step=12, mode=Mode.EVAL, mode_step=0)
    log.append([_empty(after, (raw((list(whole).index(MAPS), whole[MAPS])),))])
    _close(log, 12)


def _write(folder: Path, value_ST: Norms, steps: Sequence[int]) -> None:
    log = WorkerLog(folder)
    log.append([_record(step, value_ST[step]) for step in steps])
    _close(log, len(steps))


def _close(log: WorkerLog, steps: int) -> None:
    """Record that the worker ended, and close its files."""
    ended = WorkerEnded(step=steps, steps=steps, own_s=0.01, wall_s=1.0)
    log.append([_empty(StepKey(step=steps, mode=Mode.PREDICT), observations=(ended,))])
    log.close()


def _empty(key: StepKey, raw: tuple[Any, ...] = (), observations: tuple[Fact, ...] = ()) -> Any:
    """Return a record without statistics."""
    return StepRecord(
        key=key,
        wall_s=1e9 + key.step,
        tensor_T=np.empty(0, np.uint32),
        summary_TF=np.empty((0, WIDTH)),
        raw=raw,
        observations=observations,
    )


def _record(step: int, value_T: Norms) -> StepRecord:
    there_T = captured()[step]
    summary_TF = np.full((len(NAMES), WIDTH), np.nan)
    finite_T = np.isfinite(value_T)
    summary_TF[:, COLUMN["count"]] = 4
    summary_TF[:, COLUMN["nan"]] = np.where(finite_T, 0, 4)
    summary_TF[:, COLUMN["inf"]] = 0
    summary_TF[:, COLUMN["l2"]] = np.where(finite_T, value_T, 0.0)
    infos = [
        TensorInfo(kind="gradient", name=name, module=name.rpartition(".")[0], shape=(2, 2))
        for name in NAMES
    ]
    return StepRecord(
        key=StepKey(step=step, mode_step=step),
        wall_s=1e9 + 0.1 * step,
        tensor_T=np.flatnonzero(there_T).astype(np.uint32),
        summary_TF=summary_TF[there_T],
        scalars=(Scalar(name="loss", of="train.py:4 SGD", value=2.0 / (1 + 0.05 * step)),),
        defined=tuple(enumerate(infos)) if step == 0 else (),
    )
