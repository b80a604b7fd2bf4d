"""A callback of `fit` that has it watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


class FitCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Watch the model of a `fit` from its beginning to its end.

    Args:
        watch: begins to watch a model; what it returns has a `close`.
    """

    def __init__(self, watch: Callable[[Any], Any]) -> None:
        super().__init__()
        self._begin = watch
        self._running: Any = None

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        """Begin to watch."""
        self._running = self._begin(self.model)

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        """Record the last step, and seal the run."""
        if self._running is not None:
            self._running.close()
