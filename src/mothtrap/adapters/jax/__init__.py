"""JAX: calls of compiled functions as steps, with what they return and what a shadow sees.

Functions of the module `jax` are replaced at the end of its import. The user's executables
stay as they are; gradients and activations come from a second one, run at sampled steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import jax

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.by_hand import StepsByHand, is_tree_of_arrays
from mothtrap.adapters.jax.describing import OF_LOSSES, OF_SHADOWS, OF_UPDATES, OF_WIRING
from mothtrap.adapters.jax.faults import OF_CALLS, OF_PROGRAMS
from mothtrap.adapters.jax.handle import JaxHandle
from mothtrap.adapters.jax.replaying import begin
from mothtrap.core.adapters import Environment, Job
from mothtrap.core.facts.data import NonfiniteInput
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics
from mothtrap.core.facts.layers import IdenticalUnits, InitialWeights
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.nonfinite import FirstBadOperation
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.tracing.adapter_job import traced

FRAMEWORK: Final = "jax"
REQUIRES: Final = "jax>=0.6"
ARRAYS: Final = "jax"
STEPS: Final[Literal["own", "base", "none"]] = "own"
REPORTS: Final = Reports(
    kinds=frozenset({"weight", "bias", "gradient", "activation"}),
    scalars=frozenset({"loss", "lr"}),
    facts=frozenset(
        {
            *(*OF_LOSSES, *OF_SHADOWS, *OF_UPDATES, *OF_WIRING, *OF_PROGRAMS, *OF_CALLS),
            *(IdenticalUnits, InitialWeights, LossSeries, FirstBadOperation, NonfiniteInput),
            *(Evaluation, EvaluationMetrics),
        }
    ),
    modes=frozenset({Mode.TRAIN, Mode.EVAL}),
)


def refines() -> str | None:
    """Return None: JAX trains on no other framework."""
    return None


def accepts(target: object) -> bool:
    """Return whether `attach` can watch an object: a tree of weights."""
    return is_tree_of_arrays(target)


def attach(job: Job, targets: Sequence[object]) -> StepsByHand:
    """Take the steps that the script tells with `Watch.step`.

    Raises:
        TypeError: something beside the weights is no tree of arrays.
    """
    for target in targets[1:]:
        if not is_tree_of_arrays(target):
            raise TypeError(
                f"cannot watch a {type(target).__qualname__} beside weights of JAX: pass the "
                "weights alone, and gradients to step()"
            )
    return StepsByHand(traced(job))


def attach_process(job: Job) -> JaxHandle:
    """Watch every training of this process."""
    return JaxHandle(traced(job))


def attach_replay(plan: ReplayPlan) -> None:
    """Replay a recorded step in this process (`session.replay`)."""
    begin(plan)


def environment() -> Environment:
    """Return the place of this process among those of `jax.distributed`."""
    rank, size = internals.place_among_processes()
    return Environment(rank=rank, size=size, versions={"jax": jax.__version__})
