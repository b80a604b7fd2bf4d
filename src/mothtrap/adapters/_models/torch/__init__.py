"""Modules of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mothtrap.adapters._models.torch.network import TorchNetwork
from mothtrap.core.errors import ConfigError
from mothtrap.core.wrapped_models import WrappedModel

FRAMEWORK = "torch"
SUFFIXES = (".safetensors",)
BATCH = 4_096
"""Number of rows per forward; chosen by hand so that wide activations fit into memory."""


def accepts(model: Any) -> bool:
    """Return whether a model is a module."""
    import torch

    return isinstance(model, torch.nn.Module)


def wrap(model: Any) -> WrappedModel:
    """Wrap a module as a function.

    It is called in evaluation mode and without gradients; its previous mode is restored.
    """
    import torch

    from mothtrap.statistics.torch.in_place import as_array

    def feed(rows: Any) -> Any:
        first = next(iter(model.parameters()), torch.zeros(()))
        fed = torch.as_tensor(np.ascontiguousarray(_values(rows))).to(first.device)
        return fed.to(first.dtype) if fed.is_floating_point() else fed

    def forward(fed: Any) -> Any:
        with _evaluating(model):
            return model(fed)

    def predict(rows: Any) -> Any:
        values, parts = _values(rows), []
        with torch.no_grad():
            for begin in range(0, max(len(values), 1), BATCH):
                output = forward(feed(values[begin : begin + BATCH]))
                parts.append(as_array(output.detach().cpu().double().contiguous()).copy())
        return np.concatenate(parts)

    return WrappedModel(
        predict=predict,
        network=TorchNetwork(model, feed, forward),
    )


def _values(rows: Any) -> Any:
    return rows.to_numpy() if hasattr(rows, "to_numpy") else np.asarray(rows)


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Put a module into evaluation mode, and later restore the mode of each part."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def load(path: Path) -> Any:
    """Refuse weights without a module; see `with_weights`."""
    raise ConfigError(
        f"{path} contains only weights; pass the function that creates the module: --build "
        f"package.module:make_model --weights {path}"
    )


def with_weights(model: Any, path: Path) -> Any:
    """Load the weights in a safetensors file, which runs no code, into a module.

    Raises:
        ConfigError: the weights do not fit the module.
    """
    from safetensors.torch import load_file

    try:
        model.load_state_dict(load_file(path))
    except RuntimeError as err:
        raise ConfigError(f"{path} does not fit the module: {err}") from err
    return model
