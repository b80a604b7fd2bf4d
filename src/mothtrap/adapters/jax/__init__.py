"""JAX: each call to a compiled step function is a step.

Functions of the module `jax` are replaced at the end of its import. The user's executables are
not changed. Gradients and activations come from a second executable, which runs at sampled steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import jax

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.by_hand import StepsByHand, is_tree_of_arrays
from mothtrap.adapters.jax.evaluations import OF_EVALUATIONS
from mothtrap.adapters.jax.faults import OF_CALLS, OF_PROGRAMS
from mothtrap.adapters.jax.hooks import JaxHandle
from mothtrap.adapters.jax.layers import OF_SHADOWS, OF_WIRING
from mothtrap.adapters.jax.losses import OF_LOSSES
from mothtrap.adapters.jax.pattern_facts import OF_PATTERNS
from mothtrap.adapters.jax.replaying import begin
from mothtrap.adapters.jax.restarts import OF_RESTARTS
from mothtrap.adapters.jax.same_rows import OF_ROWS
from mothtrap.adapters.jax.target_networks import OF_TARGETS
from mothtrap.adapters.jax.weights import OF_UPDATES
from mothtrap.core.adapters import Environment, Handle, Job
from mothtrap.core.facts.data import NonfiniteInput
from mothtrap.core.facts.layers import IdenticalUnits, InitialWeights
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.nonfinite import FirstBadOperation
from mothtrap.core.facts.trainers import SummedGradients
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.tracing.handle import AdapterSpec


def _handle(job: Job, targets: Sequence[object]) -> Handle:
    return StepsByHand(job) if targets else JaxHandle(job)


def _place() -> Environment:
    """Return the position of this process in `jax.distributed`."""
    rank, size = internals.place_among_processes()
    return Environment(rank=rank, size=size, versions={"jax": jax.__version__})


REPORTS: Final = Reports(
    kinds=frozenset({"weight", "bias", "gradient", "activation"}),
    scalars=frozenset({"loss", "lr", "micro_batches"}),
    facts=frozenset(
        {
            *(*OF_LOSSES, *OF_SHADOWS, *OF_UPDATES, *OF_WIRING, *OF_PROGRAMS, *OF_CALLS),
            *(IdenticalUnits, InitialWeights, LossSeries, FirstBadOperation, NonfiniteInput),
            *(*OF_EVALUATIONS, *OF_PATTERNS, *OF_ROWS, *OF_TARGETS, *OF_RESTARTS, SummedGradients),
        }
    ),
    modes=frozenset({Mode.TRAIN, Mode.EVAL}),
)


ADAPTER: Final = AdapterSpec(
    framework="jax",
    handle=_handle,
    requires="jax>=0.6",
    arrays="jax",
    reports=REPORTS,
    watched=is_tree_of_arrays,
    replay=begin,
    place=_place,
)
