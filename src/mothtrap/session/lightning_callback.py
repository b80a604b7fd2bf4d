"""Class of `mothtrap.LightningCallback`, which derives from the library's class."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

from mothtrap.session.startup import process_worker
from mothtrap.session.watching import Watch, watch

_ROOTS = ("lightning.pytorch", "pytorch_lightning")
"""Both names of the library: a callback must belong to the one that the script uses."""
_Base: Any = importlib.import_module(
    next((name for name in _ROOTS if name in sys.modules), _ROOTS[0])
).Callback


class WatchingCallback(_Base):  # type: ignore[misc]
    """Observes the training run of a trainer; see `session.callbacks.LightningCallback`.

    Attributes:
        watch: result of `mothtrap.watch`; None before the first fit.
    """

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__()
        self._name, self._settings = name, settings
        self.watch: Watch | None = None
        self._losses: list[Any] = []
        self._steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start observing."""
        self.watch = watch(pl_module, trainer.optimizers, name=self._name, **self._settings)
        self._losses.clear()
        self._steps = trainer.global_step

    def on_train_batch_end(self, trainer: Any, _: Any, outputs: Any, *__: Any) -> None:
        """Record the loss of a batch; the loss of a step is the mean over its batches."""
        if self.watch is None or process_worker() is not None:
            return
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is not None:
            self._losses.append(loss.detach())
        if trainer.global_step > self._steps and self._losses:
            self.watch.step(sum(self._losses) / len(self._losses))
            self._losses.clear()
        self._steps = trainer.global_step

    def on_train_end(self, *_: Any) -> None:
        """End the run."""
        self._close(None)

    def on_exception(self, _: Any, __: Any, exception: BaseException) -> None:
        """End the run with the exception that ended training."""
        self._close(exception)

    def _close(self, error: BaseException | None) -> None:
        if self.watch is not None:
            self.watch.__exit__(type(error) if error else None, error, None)
