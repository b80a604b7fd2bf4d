"""ONNX files, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mothtrap.core.errors import MissingExtraError
from mothtrap.core.wrapped_models import WrappedModel

FRAMEWORK = "onnxruntime"
SUFFIXES = (".onnx",)
TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.str_,
}


def accepts(model: Any) -> bool:
    """Return whether a model is a session of onnxruntime."""
    import onnxruntime

    return isinstance(model, onnxruntime.InferenceSession)


def wrap(model: Any) -> WrappedModel:
    """Wrap a session as a function, using the output with a column per class, if any."""
    inputs = model.get_inputs()

    def predict(rows: Any) -> Any:
        if len(inputs) == 1:
            values = rows.to_numpy() if hasattr(rows, "to_numpy") else np.asarray(rows)
            fed = {inputs[0].name: values.astype(TYPES.get(inputs[0].type, np.float32))}
        else:
            fed = {each.name: _column(rows, each) for each in inputs}
        return _answer(model.run(None, fed))

    return WrappedModel(predict=predict)


def load(path: Path) -> Any:
    """Load an ONNX file, which runs no Python code.

    Raises:
        MissingExtraError: onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ImportError as err:
        raise MissingExtraError("an ONNX file", "onnxruntime", "probe") from err
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def _column(rows: Any, wanted: Any) -> Any:
    values = np.asarray(rows[wanted.name]).astype(TYPES.get(wanted.type, np.float32))
    return values[:, None] if len(wanted.shape) == 2 else values


def _answer(outputs: list[Any]) -> Any:
    """Return the probabilities among the outputs, or else the last output."""
    for output in outputs:
        if isinstance(output, list) and output and isinstance(output[0], dict):  # a ZipMap
            return np.array([[row[label] for label in output[0]] for row in output])
    arrays = [np.asarray(output) for output in outputs]
    columns = [array for array in arrays if array.ndim == 2 and array.shape[1] > 1]
    return columns[-1] if columns else arrays[-1]
