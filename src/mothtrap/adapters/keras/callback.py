"""A callback that observes one call to `fit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


class FitCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Watches the model during a `fit`.

    Args:
        watch: function that starts to observe a model; its result has a `close` method.
    """

    def __init__(self, watch: Callable[[Any], Any]) -> None:
        super().__init__()
        self._begin = watch
        self._running: Any = None

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        """Start observing the model."""
        self._running = self._begin(self.model)

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        """Record the last step, and close the run."""
        if self._running is not None:
            self._running.close()
