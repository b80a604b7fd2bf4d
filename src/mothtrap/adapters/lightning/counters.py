"""Counters of Lightning's loops, and the closure that it creates if none is passed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any, Final

from mothtrap.tracing.replacements import Function, Replacements, drop_own_frame
from mothtrap.tracing.trainers.trainers_at_work import TrainerAtWork

ROOTS: Final = ("lightning.pytorch", "pytorch_lightning")
"""The two names under which the same library is imported; each has its own classes."""


def follow_trainers(replacements: Replacements) -> None:
    """Follow the trainers of each library that is imported, in a run or in a replay."""
    for root in ROOTS:
        if root in sys.modules:
            work = TrainerAtWork(_holders)
            trainer = importlib.import_module(root).Trainer
            optimizer = importlib.import_module(f"{root}.core.optimizer").LightningOptimizer
            replacements.around(trainer, "fit", work.began, None)
            replacements.replace(optimizer, "step", _marking(work))
            replacements.on_undo(work.leave)


def _marking(work: TrainerAtWork) -> Any:
    """Return counters in which `optimizer.step()` of a manual optimization has no effect.

    Lightning always passes a closure to PyTorch, which calls its hooks.
    """

    def make(original: Function) -> Function:
        def step(self: Any, closure: Any = None, **kwargs: Any) -> Any:
            before, work.idle_closure = work.idle_closure, closure is None
            try:
                return original(self, closure, **kwargs)
            except BaseException as err:
                drop_own_frame(err)
                raise
            finally:
                work.idle_closure = before

        return step

    return make


def _holders(trainer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects with `global_step`, `current_epoch`, and the counters of steps."""
    loop = trainer.fit_loop
    epoch = loop.epoch_loop
    yield "epoch_loop", epoch
    progress = {
        "epochs": loop.epoch_progress,
        "batches": epoch.batch_progress,
        "schedulers": epoch.scheduler_progress,
        "steps": epoch.automatic_optimization.optim_progress.optimizer.step,
        "manual_steps": epoch.manual_optimization.optim_step_progress,
    }
    for name, each in progress.items():
        yield name, each
        yield f"{name}.total", each.total
        yield f"{name}.current", each.current
