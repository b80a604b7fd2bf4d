"""Runs of every kind that the page must show, written through the store without any framework."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mothtrap.core.fact import Fact
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import Finding, RuleState, Severity, fingerprint
from mothtrap.core.ledger import Ledger
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.runs import RuleStatus, RunEnd, RunInfo
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.summary import COLUMN, WIDTH
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingLog
from mothtrap.store.output_log import OutputLog
from mothtrap.store.processes import start_ticks
from mothtrap.store.source_digests import digests_of
from mothtrap.store.worker_log import WorkerLog

SCRIPT = """import torch

model = torch.nn.Linear(2, 1)
loss = model(x).log().mean()
loss.backward()
"""
HOSTILE = '</script><img src=x onerror="alert(1)">'


class MadeRun:
    """A run that is being written: one worker, weights named `blocks.N.weight`, and a loss.

    Args:
        path: of the run.
        tensors: how many have gradients.
        command: as it was typed.
        pid: of the job; by default this process, which lives.
    """

    def __init__(
        self,
        path: Path,
        *,
        tensors: int = 3,
        command: Sequence[str] = ("python", "train.py", "--lr", "0.1"),
        pid: int | None = None,
        created_s: float | None = None,
    ) -> None:
        self.path = path
        info = RunInfo(
            id=path.name,
            attempt=1,
            command=tuple(command),
            cwd=str(path.parent),
            created_s=created_s or time.time(),
            pid=os.getpid() if pid is None else pid,
            pid_ticks=start_ticks(os.getpid()) if pid is None else 0,
            host=socket.gethostname(),
            python="3.11",
            mothtrap="0",
        )
        self.attempt = layout.create_run(path, info)
        _, self.folder = layout.claim_worker(self.attempt)
        self._log = WorkerLog(self.folder)
        self._names = [f"blocks.{number}.weight" for number in range(tensors)]
        self._monitor = FindingLog(layout.monitor_folder(self.attempt, 0))
        self.steps = 0

    def train(self, losses: Sequence[float], norms: Sequence[float] | None = None) -> None:
        """Append a step for each loss; `norms`: gradient norms, one per step."""
        begin = self.steps
        records = [
            self._record(
                begin + place, loss, norms[place] if norms is not None else 1.0 + place % 7
            )
            for place, loss in enumerate(losses)
        ]
        self._log.append(records)
        self.steps += len(losses)

    def boost(
        self, scores: Sequence[float], *, loss: str = "", evaluated: str = "", batches: int = 1
    ) -> None:
        """Append a round of boosting for each value of a metric of the training data.

        Args:
            scores: of the rounds.
            loss: series of the training loss; empty = none.
            evaluated: metric of an evaluation table; empty = none.
            batches: of the evaluation; the metric grows by 1 from each to the next.
        """
        values = [("loss", loss)] if loss else [("train.auc", "train.py:4 train")]
        began = BoostingBegan(
            step=0, fit="train", call="train", objective="binary:logistic", library="xgboost"
        )
        self._log.append(
            [
                StepRecord(
                    key=StepKey(step=step, mode_step=step),
                    wall_s=1e9 + step,
                    tensor_T=np.empty(0, np.uint32),
                    summary_TF=np.empty((0, WIDTH)),
                    scalars=tuple(Scalar(name=name, of=of, value=score) for name, of in values),
                    observations=() if step else (began,),
                )
                for step, score in enumerate(scores)
            ]
        )
        if evaluated:
            ending = self._ending()
            for batch in range(batches):
                key = StepKey(step=0, mode=Mode.EVAL, mode_step=batch)
                scalar = Scalar(name=evaluated, of="test", value=scores[-1] + batch)
                self._log.append([replace(ending, key=key, scalars=(scalar,), observations=())])
        self.steps += len(scores)

    def find(self, *findings: Finding, failed: bool = False) -> None:
        """Write findings and the states of four rules."""
        bad = {finding.code: finding for finding in findings}
        states = (
            RuleStatus(code="NUM001", name="nonfinite_loss", state=_state(bad.get("NUM001"))),
            RuleStatus(code="GRD101", name="exploding_gradient", state=_state(bad.get("GRD101"))),
            RuleStatus(
                code="LOS403",
                name="overfit",
                state=RuleState.NOT_ENOUGH_DATA,
                reason="no evaluation was seen",
            ),
            RuleStatus(
                code="DST951",
                name="ranks_diverge",
                state=RuleState.RULE_FAILED if failed else RuleState.NOT_APPLICABLE,
                reason="one worker",
            ),
        )
        self._monitor.append(findings, states)

    def write_ledger(self, *files: str) -> None:
        """Note files of the folder of runs as the script's sources, as they are now."""
        facts = {"sources": digests_of(files, self.path.parent)}
        cwd = str(self.path.parent)
        layout.write_ledger(
            self.folder,
            Ledger(created_s=0.0, rank=0, framework="torch", arguments=(), cwd=cwd, facts=facts),
        )

    def print_lines(self, text: str) -> None:
        """Keep some output of the job."""
        OutputLog(self.attempt).append(text.encode())

    def tell(self, *facts: Fact) -> None:
        """Write facts."""
        self._log.append([replace(self._ending(), observations=facts)])

    def end(
        self,
        exit_code: int = 0,
        *facts: Fact,
        closes_worker: bool = True,
        told: Mapping[str, str] | None = None,
    ) -> None:
        """Close the worker, if this object owns its log, and the run.

        Args:
            exit_code: of the job.
            facts: that come at its end.
            closes_worker: False where another log is that of the worker.
            told: of the exception that ended it; fields of `WorkerEnded`.
        """
        if closes_worker:
            self._log.append([self._ending(facts, told or {})])
        layout.write_end(self.attempt, RunEnd(exit_code=exit_code, ended_s=time.time()))
        self.close()

    def close(self) -> None:
        """Close the files; for a run that did not end, nothing else is written."""
        self._log.close()
        self._monitor.close()

    def _record(self, step: int, loss: float, norm: float) -> StepRecord:
        count = len(self._names)
        summary_TF = np.full((count, WIDTH), np.nan)
        finite = np.isfinite(norm)
        values = {"count": 4, "nan": 0 if finite else 4, "inf": 0, "l2": norm if finite else 0.0}
        for name, value in values.items():
            summary_TF[:, COLUMN[name]] = value
        defined = ()
        observations = ()
        if step == 0:
            defined = tuple(
                (number, TensorInfo(kind="gradient", name=name, module=name.rpartition(".")[0]))
                for number, name in enumerate(self._names)
            )
            observations = (LossSeries(step=0, series="train.py:4 SGD", location="train.py:4"),)
        return StepRecord(
            key=StepKey(step=step, mode_step=step),
            wall_s=1e9 + 0.1 * step,
            tensor_T=np.arange(count, dtype=np.uint32),
            summary_TF=summary_TF,
            scalars=(
                Scalar(name="loss", of="train.py:4 SGD", value=loss),
                Scalar(name="lr", of="SGD", value=0.1),
            ),
            defined=defined,
            observations=observations,
        )

    def _ending(
        self, facts: tuple[Fact, ...] = (), told: Mapping[str, str] = MappingProxyType({})
    ) -> StepRecord:
        ended = WorkerEnded(step=self.steps, steps=self.steps, own_s=0.01, wall_s=1.0, **told)
        return StepRecord(
            key=StepKey(step=self.steps, mode=Mode.PREDICT),
            wall_s=1e9 + 0.1 * self.steps,
            tensor_T=np.empty(0, np.uint32),
            summary_TF=np.empty((0, WIDTH)),
            observations=(*facts, ended),
        )


def _state(finding: Finding | None) -> RuleState:
    return RuleState(finding.severity.value) if finding else RuleState.OK


def exploding(step: int = 40, layer: str = "blocks.1.weight") -> Finding:
    """An exploding gradient, which the demo's line 4 causes."""
    return Finding(
        code="GRD101",
        name="exploding_gradient",
        severity=Severity.ERROR,
        step=step,
        detected_step=step + 1,
        layers=(layer, "blocks.0.weight"),
        last_step=step + 9,
        count=10,
        message="gradient norm 3.1e+04 is 410x its median (limit 100x)",
        evidence={"value": 3.1e4, "ratio": 410.0, "limit": 100.0},
        why="Each step overshoots.",
        fixes=("Clip the gradient norm: `clip_grad_norm_(parameters, 1.0)`.", "Lower the rate."),
        location="train.py:4",
        fingerprint=fingerprint("GRD101", (layer,), "train"),
    )


def nonfinite_loss(step: int = 45) -> Finding:
    """Return the consequence of the exploding gradient."""
    return Finding(
        code="NUM001",
        name="nonfinite_loss",
        severity=Severity.ERROR,
        step=step,
        detected_step=step,
        message="loss is NaN",
        evidence={"value": "NaN", "series": "train.py:4 SGD"},
        why="Nothing can be learned from it.",
        fixes=("Guard the operation that broke.",),
        location="train.py:4",
        fingerprint=fingerprint("NUM001", (), "train"),
    )


def dead_pid() -> int:
    """The number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def make_all(runs: Path) -> None:
    """Write a healthy run, one with NaN, a crashed, a live, an empty, a wide and a hostile one."""
    runs.mkdir(parents=True)
    (runs / "train.py").write_text(SCRIPT)
    falling = [2.0 / (1 + 0.05 * step) for step in range(120)]
    healthy = MadeRun(runs / "healthy", created_s=1.0)
    healthy.train(falling)
    healthy.find()
    healthy.print_lines("".join(f"epoch {n}: loss {2 / (1 + n):.3f}\n" for n in range(300)))
    healthy.end()
    make_faulty(runs / "nan", created_s=2.0)
    crashed = MadeRun(runs / "crashed", pid=dead_pid(), created_s=3.0)
    crashed.train(falling[:30])
    crashed.print_lines("".join(f"epoch {n}\n" for n in range(30)) + "MemoryError: the end\n")
    crashed.close()
    live = MadeRun(runs / "live", created_s=7.0)
    live.train(falling[:50])
    live.find()
    live.close()
    MadeRun(runs / "empty", pid=dead_pid(), created_s=4.0).close()
    wide = MadeRun(runs / "wide", tensors=10_000, created_s=5.0)
    wide.train(falling[:4])
    wide.find(exploding(2, "blocks.9999.weight"))
    wide.end()
    hostile = MadeRun(runs / "a&b=c%2F#'\"", created_s=6.0, command=("python", HOSTILE))
    hostile.train(falling[:5])
    hostile.find(exploding(2, HOSTILE))
    hostile.print_lines(f"{HOSTILE}\n\x1b[31mred\x1b[0m\n")
    hostile.end()


def make_faulty(path: Path, created_s: float | None = None) -> None:
    """Write a run whose gradients explode from step 40 on, and whose loss is NaN from 45 on."""
    run = MadeRun(path, created_s=created_s)
    run.write_ledger("train.py")
    loss = [1.0] * 40 + [10.0, 1e3, 1e5, 1e7, 1e9] + [float("nan")] * 15
    norm = [1.0] * 40 + [4e2, 1e4, 1e6, 1e8, 1e30] + [float("nan")] * 15
    run.train(loss, norm)
    run.find(exploding(), nonfinite_loss())
    run.print_lines("step 44: loss 1e9\nstep 45: loss nan\n")
    run.end()
