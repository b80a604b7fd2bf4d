"""Modules of PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mothtrap.core.errors import ConfigError
from mothtrap.core.wrapped_models import WrappedModel

FRAMEWORK = "torch"
SUFFIXES = (".safetensors",)
BATCH = 4_096
"""Rows of one forward; chosen by hand: a batch of wide activations fits into memory."""


def accepts(model: Any) -> bool:
    """Return whether a model is a module."""
    import torch

    return isinstance(model, torch.nn.Module)


def wrap(model: Any) -> WrappedModel:
    """Return a module as a function.

    It answers in evaluation mode and without gradients; the mode that it was in is restored.
    """
    import torch

    from mothtrap.statistics.torch.in_place import as_array

    def predict(rows: Any) -> Any:
        first = next(iter(model.parameters()), torch.zeros(()))
        values = rows.to_numpy() if hasattr(rows, "to_numpy") else np.asarray(rows)
        modes = [(part, part.training) for part in model.modules()]
        model.eval()
        try:
            with torch.no_grad():
                parts = []
                for begin in range(0, max(len(values), 1), BATCH):
                    fed = torch.as_tensor(np.ascontiguousarray(values[begin : begin + BATCH]))
                    fed = fed.to(first.device)
                    if fed.is_floating_point():
                        fed = fed.to(first.dtype)
                    parts.append(as_array(model(fed).detach().cpu().double().contiguous()).copy())
                return np.concatenate(parts)
        finally:
            for part, training in modes:
                part.training = training

    return WrappedModel(predict=predict)


def load(path: Path) -> Any:
    """Refuse weights without a module; see `with_weights`."""
    raise ConfigError(
        f"{path} holds weights alone; give the function that makes the module: "
        f"--build package.module:make_model --weights {path}"
    )


def with_weights(model: Any, path: Path) -> Any:
    """Load weights of a safetensors file, which runs no code, into a module.

    Raises:
        ConfigError: the weights are not those of the module.
    """
    from safetensors.torch import load_file

    try:
        model.load_state_dict(load_file(path))
    except RuntimeError as err:
        raise ConfigError(f"{path} does not fit the module: {err}") from err
    return model
