"""A model of any framework as a function from rows to answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Predict = Callable[[Any], Any]


class HiddenUnits(Protocol):
    """Channels of the hidden layers of a network."""

    def importance(self, rows: Any) -> list[npt.NDArray[np.float64]]:
        """Return the importance of each channel, one array (channels,) for each hidden layer."""

    def without(self, dropped: list[npt.NDArray[np.bool_]]) -> AbstractContextManager[None]:
        """Hold channels at their mean while a block runs; `importance` was called before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedModel:
    """A trained model.

    Attributes:
        predict: returns the answers to rows.
        classes: labels in the order of the columns of probabilities; empty where unknown.
        task: `classification` or `regression`; None where unknown.
        refit: fits the model anew, and returns its `predict`; None where that is not possible.
        units: hidden channels of a network; None where they cannot be masked.
    """

    predict: Predict
    classes: tuple[Any, ...] = ()
    task: str | None = None
    refit: Callable[[Any, Any], Predict] | None = None
    units: HiddenUnits | None = None


class ModelWrapper(Protocol):
    """Module that wraps the models of one framework.

    `FRAMEWORK` is the name of its import, `SUFFIXES` are the files that it reads. Nothing in the
    module imports the framework before `wrap` or `load` is called.
    """

    FRAMEWORK: str
    SUFFIXES: tuple[str, ...]

    def accepts(self, model: Any) -> bool:
        """Return whether the model is one of the framework."""

    def wrap(self, model: Any) -> WrappedModel:
        """Return the model as a function."""

    def load(self, path: Path) -> Any:
        """Read a model from a file, without running code that the file holds."""
