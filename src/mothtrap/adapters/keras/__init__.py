"""Keras 3: `fit`, `train_on_batch`, custom `train_step`s and loops, on TensorFlow.

Only classes of the library are patched, never layers or optimizers of the user. A program that is
traced while it is observed also writes tensors to variables of mothtrap, but computes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import keras

from mothtrap.adapters.keras import internals, reports
from mothtrap.adapters.keras.unseen import UnseenHandle
from mothtrap.core.adapters import Handle, Job
from mothtrap.core.replays import ReplayPlan
from mothtrap.tracing.adapter_parts import CheckParts
from mothtrap.tracing.handle import AdapterSpec
from mothtrap.tracing.replacements import Replacements

if TYPE_CHECKING:
    from mothtrap.checks.check import Check
    from mothtrap.core.check_plan import CheckPlan, Files
    from mothtrap.core.facts.checks import CheckResult

    Finish = Callable[[Sequence[CheckResult], str], object]

REQUIRES: Final = f"keras>={'.'.join(map(str, internals.FLOOR))}"
ON_TORCH: Final = keras.backend.backend() == "torch"


def _handle(job: Job, targets: Sequence[object]) -> Handle:
    if not internals.is_new_enough():
        return UnseenHandle(job, f"Keras {keras.version()} is installed; {REQUIRES} is observed")
    backend = keras.backend.backend()
    if backend == "jax" and not targets:
        from mothtrap.adapters.keras.on_jax import KerasOnJaxHandle

        return KerasOnJaxHandle(job)
    if ON_TORCH and not targets:
        from mothtrap.adapters.keras.on_torch import KerasOnTorchHandle

        return KerasOnTorchHandle(job)
    if backend != "tensorflow":
        why = "; call `mothtrap.watch` without a model" if backend in ("jax", "torch") else ""
        return UnseenHandle(job, f"mothtrap cannot watch one model of Keras on {backend}{why}")
    from mothtrap.adapters.keras.hooks import KerasHandle  # imports TensorFlow

    return KerasHandle(job, targets)


def _replay(plan: ReplayPlan) -> None:
    """Replay a recorded step in this process; on the PyTorch backend, PyTorch's adapter does so."""
    if ON_TORCH:
        from mothtrap.adapters.keras.on_torch import StandIns

        StandIns(Replacements())
        return
    from mothtrap.adapters.keras.replay_start import begin  # imports TensorFlow

    begin(plan)


def _check(
    plan: CheckPlan,
    checks: Sequence[Check],
    finish: Finish,
    _leave: Callable[[], object],
    pause: Callable[[], object],
    files: Files | None,
) -> None:
    """Check the script of this process."""
    from mothtrap.adapters.keras.checking.beginning import begin

    begin(plan, checks, finish, pause, files)


def _trial(plan: CheckPlan, files: Files | None = None) -> None:
    """Record the steps of a script that a check has restarted."""
    if plan.trial is not None:
        return
    from mothtrap.adapters.keras.checking.beginning import lead_writes
    from mothtrap.adapters.keras.checking.noted_steps import NotedSteps

    if files is not None:
        lead_writes(files)
    NotedSteps(plan).install()


def _explicit_step(*given: Any) -> Any:
    """Return the step of a compiled model and its batches."""
    from mothtrap.adapters.keras.checking.trained_step import KerasStep

    return KerasStep.of(*given)


def _explicit_set(
    loader: object,
    role: Literal["train", "evaluation"],
    batches: Sequence[Any] = (),  # noqa: ARG001  # a pipeline does not number its rows
) -> Any:
    from mothtrap.adapters.keras.checking.given_data import given_set

    return given_set(loader, role)


ADAPTER: Final = AdapterSpec(
    framework="keras",
    handle=_handle,
    requires=REQUIRES,
    reports=reports.ON_TORCH if ON_TORCH else reports.REPORTS,
    watched=(keras.Model,),
    beside=(keras.optimizers.Optimizer,),
    refines="torch" if ON_TORCH else None,
    steps="base" if ON_TORCH else "own",
    replay=_replay,
    checks=CheckParts(
        run=None if ON_TORCH else _check,  # PyTorch's own check covers its backend
        trial=None if ON_TORCH else _trial,
        step=_explicit_step,
        data_set=_explicit_set,
    ),
)
