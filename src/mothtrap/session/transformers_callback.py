"""Class of `mothtrap.TrainerCallback`, which derives from the library's class."""

from __future__ import annotations

import importlib
from typing import Any

from mothtrap.session.watching import Watch, watch

_Base: Any = importlib.import_module("transformers").TrainerCallback


class WatchingCallback(_Base):  # type: ignore[misc]
    """Observes the training run of a trainer; see `session.callbacks.TrainerCallback`.

    Attributes:
        watch: result of `mothtrap.watch`; None before the first training run.
    """

    def __init__(self, name: str | None, **settings: Any) -> None:
        self._name, self._settings = name, settings
        self.watch: Watch | None = None

    def on_train_begin(self, *_: Any, model: Any, optimizer: Any = None, **__: Any) -> None:
        """Start observing."""
        while hasattr(model, "module"):  # wrappers added for training
            model = model.module
        while hasattr(optimizer, "optimizer"):
            optimizer = optimizer.optimizer
        self.watch = watch(model, optimizer, name=self._name, **self._settings)

    def on_log(self, *_: Any, logs: Any = None, **__: Any) -> None:
        """Record the values that the Trainer logs."""
        if self.watch is not None:
            self.watch.log_all(logs or {})

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """End the run."""
        if self.watch is not None:
            self.watch.close()
