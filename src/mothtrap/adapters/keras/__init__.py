"""Keras 3: `fit`, `train_on_batch`, custom `train_step`s and loops, on TensorFlow.

Classes of the library are patched, never layers or optimizers of the user's. A program that is
traced while it is watched also writes tensors into variables of ours: it computes nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import keras

from mothtrap.adapters.keras import names, reports
from mothtrap.adapters.keras.unseen import UnseenHandle
from mothtrap.core.adapters import Environment, Handle, Job
from mothtrap.core.replays import ReplayPlan
from mothtrap.tracing.replacements import Replacements

FRAMEWORK: Final = "keras"
REQUIRES: Final = f"keras>={'.'.join(map(str, names.FLOOR))}"
ARRAYS: Final = "numpy"
ON_TORCH: Final = keras.backend.backend() == "torch"
STEPS: Final[Literal["own", "base", "none"]] = "base" if ON_TORCH else "own"
REPORTS: Final = reports.ON_TORCH if ON_TORCH else reports.REPORTS


def refines() -> str | None:
    """Return `torch` on PyTorch; else None: what is seen of TensorFlow's programs is seen here."""
    return "torch" if ON_TORCH else None


def accepts(target: object) -> bool:
    """Return whether `attach` can watch an object: a model."""
    return isinstance(target, keras.Model)


def attach(job: Job, targets: Sequence[object]) -> Handle:
    """Watch the trainings of a model; no others.

    Raises:
        TypeError: one of the optimizers is not one of Keras.
    """
    for target in targets[1:]:
        if not isinstance(target, keras.optimizers.Optimizer):
            raise TypeError(
                f"cannot watch a {type(target).__qualname__} beside a Keras model: expected an "
                "optimizer of Keras"
            )
    return _handle(job, targets)


def attach_process(job: Job) -> Handle:
    """Watch every training of this process."""
    return _handle(job, ())


def _handle(job: Job, targets: Sequence[object]) -> Handle:
    if not names.is_new_enough():
        return UnseenHandle(job, f"Keras {keras.version()} is installed; {REQUIRES} is observed")
    backend = keras.backend.backend()
    if backend == "jax" and not targets:
        from mothtrap.adapters.keras.on_jax import KerasOnJaxHandle

        return KerasOnJaxHandle(job)
    if ON_TORCH and not targets:
        from mothtrap.adapters.keras.on_torch import KerasOnTorchHandle

        return KerasOnTorchHandle(job)
    if backend != "tensorflow":
        why = "; give `mothtrap.watch` no model there" if backend in ("jax", "torch") else ""
        return UnseenHandle(job, f"Keras runs on {backend}, where no model is watched alone{why}")
    from mothtrap.adapters.keras.handle import KerasHandle  # imports TensorFlow

    return KerasHandle(job, targets)


def attach_replay(plan: ReplayPlan) -> None:
    """Replay a recorded step in this process; on PyTorch that does, with the steps of Keras."""
    if ON_TORCH:
        from mothtrap.adapters.keras.on_torch import StandIns

        StandIns(Replacements(lambda act, *args: act(*args)))
        return
    from mothtrap.adapters.keras.replaying import begin  # imports TensorFlow

    begin(plan)


def environment() -> Environment:
    """Return the place of this process, which is alone so far as Keras knows."""
    return Environment(versions={"keras": keras.version()})
