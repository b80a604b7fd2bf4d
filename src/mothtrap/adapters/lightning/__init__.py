"""Lightning: phases, settings and logged names of its Trainer, which trains on PyTorch.

Functions of the library are replaced; no callback is added to a trainer, and nothing to a module.
What happens in a step is seen of PyTorch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, Literal

from mothtrap.adapters.lightning.counters import ROOTS, follow_trainers
from mothtrap.adapters.lightning.handle import LightningHandle
from mothtrap.core.adapters import Environment, Job
from mothtrap.core.replays import ReplayPlan
from mothtrap.tracing.replacements import Replacements
from mothtrap.tracing.trainer_handle import REPORTS as REPORTS

FRAMEWORK: Final = "lightning"
REQUIRES: Final = "lightning>=2.2"
ARRAYS: Final = "torch"
STEPS: Final[Literal["own", "base", "none"]] = "base"


def refines() -> str | None:
    """Return `torch`."""
    return "torch"


def accepts(target: object) -> bool:
    """Return whether `attach` can watch an object: a LightningModule."""
    return any(kind.__name__ == "LightningModule" for kind in type(target).__mro__)


def attach(job: Job, targets: Sequence[object]) -> LightningHandle:
    """Watch the trainings of a LightningModule; no others."""
    return LightningHandle(job, targets[:1])


def attach_process(job: Job) -> LightningHandle:
    """Watch every training of this process."""
    return LightningHandle(job)


def attach_replay(_: ReplayPlan) -> None:
    """Follow the counters of trainers; PyTorch replays the step, and restores them."""
    follow_trainers(Replacements(lambda act, *args: act(*args)))


def environment() -> Environment:
    """Return the version: PyTorch knows the place in the job."""
    found = [sys.modules[root.partition(".")[0]] for root in ROOTS if root in sys.modules]
    return Environment(versions={"lightning": str(found[0].__version__)} if found else {})
