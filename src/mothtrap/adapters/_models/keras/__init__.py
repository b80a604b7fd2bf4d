"""Models of Keras, on any backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mothtrap.adapters._models.keras.network import KerasNetwork
from mothtrap.core.wrapped_models import WrappedModel

FRAMEWORK = "keras"
SUFFIXES = (".keras",)
BATCH = 1_024
"""Number of rows per forward while channels are held; chosen by hand."""


def accepts(model: Any) -> bool:
    """Return whether a model is a Keras model."""
    import keras

    return isinstance(model, keras.Model)


def wrap(model: Any) -> WrappedModel:
    """Wrap a model as a function that predicts in evaluation mode."""
    network = KerasNetwork(model, _fed)

    def predict(rows: Any) -> Any:
        if network.is_holding:  # the compiled function does not call the layers again
            return np.concatenate(
                [network.outputs(rows[i : i + BATCH]) for i in range(0, len(rows), BATCH)]
            )
        return model.predict(_fed(rows), verbose=0)

    return WrappedModel(predict=predict, network=network)


def load(path: Path) -> Any:
    """Load a `.keras` file; Keras refuses files that contain code."""
    import keras

    return keras.saving.load_model(path, compile=False, safe_mode=True)


def _fed(rows: Any) -> Any:
    """Return the input in Keras form: an array, or arrays by name."""
    if isinstance(rows, dict):
        return {name: np.asarray(values) for name, values in rows.items()}
    return rows.to_numpy() if hasattr(rows, "to_numpy") else rows
