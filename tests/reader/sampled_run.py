"""A run whose steps list the samples they trained on, written through the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tests.cli.stored_run import store_run

from mothtrap.core.facts.samples import DataSeen, SampleBatch, SamplesNamed, SamplesTaken
from mothtrap.core.packed import pack
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import StepKey
from mothtrap.statistics.summary import WIDTH
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog


def batch(indices: Sequence[int], data: int = 0, **more: object) -> SampleBatch:
    fields = {"loader": "loader 1", "rows": len(indices), "data": data, "indices": pack(indices)}
    return SampleBatch(**{**fields, **more})  # type: ignore[arg-type]


def store(
    path: Path,
    steps: Mapping[int, Sequence[SampleBatch]],
    *,
    losses: Mapping[int, float] | None = None,
    names: Mapping[int, str] | None = None,
    rank: int = 1,
) -> Path:
    """Write a run of two workers in which the one of `rank` lists its samples."""
    store_run(path, steps=1)
    _, folder = layout.claim_worker(layout.attempt_folder(path, 1), rank)
    facts = [
        DataSeen(step=0, data=0, loader="loader 1", kind="a.Folder", length=100, root="/d/"),
        DataSeen(step=0, data=1, loader="loader 1", kind="a.Other", length=100),
    ]
    named = names or {}
    told = SamplesNamed(step=0, data=0, indices=pack([*named]), names=tuple(named.values()))
    log = WorkerLog(folder)
    log.append(
        [
            StepRecord(
                key=StepKey(step=step, mode_step=step),
                wall_s=float(step),
                tensor_T=np.empty(0, np.uint32),
                summary_TF=np.empty((0, WIDTH)),
                scalars=(Scalar("loss", "train.py:3", (losses or {}).get(step, 1.0)),),
                observations=(
                    *((*facts, told) if place == 0 else ()),
                    SamplesTaken(step=step, batches=tuple(batches)),
                ),
            )
            for place, (step, batches) in enumerate(steps.items())
        ]
    )
    log.close()
    return path
