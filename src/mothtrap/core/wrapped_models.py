"""A model of any framework as a function from rows to answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

Predict = Callable[[Any], Any]


Held = Mapping[str, tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]]
"""Channels to hold, by name of the layer: their indices and values, both of shape (channels,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerOutput:
    """Output of one layer of a network.

    Attributes:
        name: name of the layer.
        kind: kind of layer.
        values: float32, shape (rows, ..., channels): channels are last in every framework.
    """

    name: str
    kind: Literal["linear", "convolution", "other"]
    values: npt.NDArray[np.float32]


class Network(Protocol):
    """Outputs and gradients of a network in evaluation mode."""

    def outputs(self, rows: Any) -> npt.NDArray[np.float64]:
        """Return the outputs, shape (rows, outputs)."""

    def layers(self, rows: Any) -> list[LayerOutput]:
        """Return the outputs of all layers without parts, in the order of their calls."""

    def gradient(
        self, rows: Any, weight_RK: npt.NDArray[np.float64], layer: str = ""
    ) -> npt.NDArray[np.float32]:
        """Return the gradient of the weighted sum of the outputs.

        Args:
            rows: inputs.
            weight_RK: weight of each output of each row, shape (rows, outputs).
            layer: name of the layer whose output the gradient is taken at; "" for the inputs.

        Returns:
            An array of the shape of the inputs, or of `LayerOutput.values`.
        """

    def shuffled(
        self, layers: Sequence[str], rng: np.random.Generator
    ) -> AbstractContextManager[None]:
        """Shuffle the weights of some layers while a block runs."""

    def holding(self, held: Held) -> AbstractContextManager[None]:
        """Hold channels of linear and convolutional layers at a value while a block runs.

        A constant channel can be removed: it becomes a part of the next bias.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedModel:
    """A trained model with a uniform interface.

    Attributes:
        predict: returns predictions for rows.
        classes: labels in the order of the probability columns; empty if unknown.
        task: `classification` or `regression`; None if unknown.
        refit: refits the model, and returns its `predict`; None if that is not possible.
        network: outputs and gradients of a network; None for other models.
    """

    predict: Predict
    classes: tuple[Any, ...] = ()
    task: str | None = None
    refit: Callable[[Any, Any], Predict] | None = None
    network: Network | None = None


class ModelWrapper(Protocol):
    """Module that wraps the models of one framework.

    `FRAMEWORK` is the framework's import name, and `SUFFIXES` are the suffixes of the files that it
    reads. The module does not import the framework before `wrap` or `load` is called.
    """

    FRAMEWORK: str
    SUFFIXES: tuple[str, ...]

    def accepts(self, model: Any) -> bool:
        """Return whether the model belongs to the framework."""

    def wrap(self, model: Any) -> WrappedModel:
        """Return the model as a `WrappedModel`."""

    def load(self, path: Path) -> Any:
        """Load a model from a file, without running code stored in the file."""
