"""Runs whose findings need a chart of their own: layers, ranks, facts, joint norms, the machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
from tests.web.made_runs import MadeRun

from mothtrap.core.fact import Fact
from mothtrap.core.facts.layers import OutputSpread
from mothtrap.core.facts.replicas import ReplicaDigests
from mothtrap.core.findings import EvidenceValue, Finding, Severity, fingerprint
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.summary import COLUMN, WIDTH
from mothtrap.store import layout
from mothtrap.store.machine_log import MachineLog, Reading
from mothtrap.store.worker_log import WorkerLog

STEPS = 60
LAYERS = ("0", "2", "4", "6")
SIZES = (16, 16, 16, 4)
"""Elements of the bias of each layer."""
NORMS = (1e-8, 1e-6, 1e-3, 1.0)
"""Gradient norm of the bias of each layer, at every step."""


def found(
    code: str,
    name: str,
    layers: tuple[str, ...],
    evidence: Mapping[str, EvidenceValue],
    step: int = 10,
) -> Finding:
    """Return a finding at a step."""
    return Finding(
        code=code,
        name=name,
        severity=Severity.ERROR,
        step=step,
        detected_step=step,
        last_step=STEPS - 1,
        layers=layers,
        message="something is wrong (limit 0.001)",
        evidence=dict(evidence),
        location="train.py:4",
        fingerprint=fingerprint(code, layers, "train"),
    )


VANISHING = found(
    "GRD102",
    "vanishing_gradient",
    ("0", "2"),
    {"value": 1e-8, "limit": 1e-3, "first_layer": "0", "last_layer": "6"},
)
EXPLODING = found(
    "GRD101", "exploding_gradient", ("6.bias",), {"value": 3e4, "reference": 1.0, "limit": 100.0}
)
CONSTANT = found("ACT203", "constant_output", ("net",), {"value": 1e-5, "limit": 1e-3})
DIVERGING = found(
    "DST951", "ranks_diverge", ("3",), {"last_equal_step": 20, "onset_at_latest": 40}, step=30
)
DIVERGING = msgspec.structs.replace(DIVERGING, workers=(1,))
SWAPPED = found("STR721", "loss_arguments_swapped", (), {})


def make_evidence(runs: Path) -> None:
    """Write the runs `vanish`, `constant`, `ranks` and `quiet`."""
    for name, findings in {
        "vanish": (VANISHING, EXPLODING),
        "constant": (CONSTANT, SWAPPED),
        "quiet": (),
    }.items():
        run = MadeRun(runs / name, created_s=1.0)
        _train(run.folder, spread=name == "constant")
        _sample_machine(run.attempt)
        run.find(*findings)
        run.end(closes_worker=False)
    ranks = MadeRun(runs / "ranks", created_s=1.0)
    folders = [ranks.folder, layout.claim_worker(ranks.attempt)[1]]
    for rank, folder in enumerate(folders):
        _train(folder, digests_of=rank)
    ranks.find(DIVERGING)
    ranks.end(closes_worker=False)


def _sample_machine(attempt: Path) -> None:
    log = MachineLog(attempt)
    log.append([Reading(1e9 + second, "cpu_percent", "", 50.0 + second) for second in range(6)])
    log.close()


def _train(folder: Path, *, spread: bool = False, digests_of: int | None = None) -> None:
    log = WorkerLog(folder)
    log.append([_record(step, spread, digests_of) for step in range(STEPS)])
    log.close()


def _record(step: int, spread: bool, rank: int | None) -> StepRecord:
    summary_TF = np.full((len(LAYERS), WIDTH), np.nan)
    summary_TF[:, COLUMN["count"]] = SIZES
    summary_TF[:, COLUMN["nan"]] = summary_TF[:, COLUMN["inf"]] = 0
    summary_TF[:, COLUMN["l2"]] = NORMS
    level = 2.28 + (rank == 1 and step >= 30)
    infos = [
        TensorInfo(kind="gradient", name=f"{layer}.bias", module=layer, shape=(size,))
        for layer, size in zip(LAYERS, SIZES, strict=True)
    ]
    return StepRecord(
        key=StepKey(step=step, mode_step=step),
        wall_s=1e9 + 0.1 * step,
        tensor_T=np.arange(len(LAYERS), dtype=np.uint32),
        summary_TF=summary_TF,
        scalars=(
            Scalar(name="loss", of="train.py:4 SGD", value=level + 0.001 * math.sin(step)),
            Scalar(name="lr", of="SGD", value=0.1),
        ),
        defined=tuple(enumerate(infos)) if step == 0 else (),
        observations=tuple(_facts(step, spread, rank)),
    )


def _facts(step: int, spread: bool, rank: int | None) -> list[Fact]:
    facts: list[Fact] = []
    if spread:
        facts.append(
            OutputSpread(
                step=step,
                root="net",
                place="",
                shape=(8, 4),
                spread=2e-5,
                rms=2.0,
                largest=1e-4,
                inputs_differ=True,
            )
        )
    if rank is not None and step % 10 == 0:
        digest = "b" if rank == 1 and step >= 30 else "a"
        facts.append(ReplicaDigests(step=step, digests={"0": "c", "3": digest}))
    return facts
