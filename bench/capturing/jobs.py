"""One line of the benchmark, measured in a separate process."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bench.capturing.pairing import Shape, Sides, follow_memory, measure

FIRST_STEPS = 5
"""Plain steps after which an optimizer has its memory."""


class CannotDoError(Exception):
    """A tool does not support a setting, for the reason in the text."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Work of one process.

    Attributes:
        kind: `pairs`; `p99` = pairs of ten steps; `long` = nothing but watched steps.
        model, setting: see `settings.py`.
        by: `mothtrap`, `floor: <name>`, or a peer.
        folder: where the process may write.
        threads: of torch.
        pairs, steps, warm_up, most_s, most_gb: see `Shape`; of a `long` job, `steps` alone.
    """

    kind: Literal["pairs", "p99", "long"]
    model: str
    setting: str
    by: str
    folder: str
    threads: int
    pairs: int
    steps: int
    warm_up: int
    most_s: float
    most_gb: float

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))


def training_of(model: str) -> tuple[Any, Any, Any]:
    """Return model, optimizer and step of a new training."""
    return importlib.import_module(f"bench.models.{model}").training()


def perform(text: str, watch: Callable[[Job], tuple[Sides, str]]) -> str:
    """Do a job; return its result as one line of JSON.

    Args:
        text: a job, see `Job.text`.
        watch: returns the sides, and a short description of the watched data; raises
            `CannotDoError`.
    """
    import torch

    job = Job(**json.loads(text))
    torch.set_num_threads(job.threads)
    Path(job.folder).mkdir(parents=True, exist_ok=True)
    try:
        sides, note = watch(job)
    except CannotDoError as err:
        return json.dumps({"cannot": str(err)})
    if job.kind == "long":
        return json.dumps({"note": note, **follow_memory(sides, job.steps)})
    shape = Shape(
        pairs=job.pairs,
        steps=job.steps,
        warm_up=job.warm_up,
        most_s=job.most_s,
        most_gb=job.most_gb,
    )
    unmeasured = 1 if job.kind == "p99" else job.steps
    return json.dumps({"note": note, **measure(sides, shape, unmeasured)})
