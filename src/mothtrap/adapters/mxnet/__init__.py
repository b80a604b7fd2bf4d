"""MXNet's gluon: steps of a `Trainer`, with losses, gradients, weights and layers.

Classes of the library are patched, never objects of the user's. Values are copied to the host,
which waits for the engine and changes nothing. There are no snapshots, as random states cannot be
read back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import mxnet
from mxnet import gluon

from mothtrap.adapters.mxnet.handle import EACH_STEP, SAMPLED, GluonHandle
from mothtrap.core.adapters import Environment, Job
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode

FRAMEWORK: Final = "mxnet"
REQUIRES: Final = "mxnet==1.9.1"
ARRAYS: Final = "numpy"
STEPS: Final[Literal["own", "base", "none"]] = "own"
REPORTS: Final = Reports(
    kinds=frozenset({"weight", "bias", "gradient", "activation"}),
    scalars=frozenset({"loss", "lr"}),
    facts=frozenset({*EACH_STEP, *SAMPLED}),
    modes=frozenset({Mode.TRAIN, Mode.EVAL}),
)
WATCHED: Final = (gluon.Block, gluon.Trainer)


def refines() -> str | None:
    """Return None: MXNet trains on no other framework."""
    return None


def accepts(target: object) -> bool:
    """Return whether `attach` can watch an object: a block or a trainer."""
    return isinstance(target, WATCHED)


def attach(job: Job, targets: Sequence[object]) -> GluonHandle:
    """Watch the steps of some trainers, or of those that hold parameters of some blocks.

    Raises:
        TypeError: a target is neither.
    """
    for target in targets:
        if not accepts(target):
            raise TypeError(
                f"cannot watch a {type(target).__qualname__} beside a model of MXNet: expected a "
                "gluon Block or Trainer"
            )
    return GluonHandle(job, tuple(targets))


def attach_process(job: Job) -> GluonHandle:
    """Watch every step of this process."""
    return GluonHandle(job)


def attach_replay(plan: ReplayPlan) -> None:
    """Do nothing: steps leave no snapshot that could be replayed."""


def environment() -> Environment:
    """Return the version; ranks of a distributed key-value store are not read."""
    return Environment(versions={"mxnet": mxnet.__version__})
