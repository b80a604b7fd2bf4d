"""The functions of a model that `fit` traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def parts_of(model: Any) -> list[tuple[Callable[..., Any], object]]:
    """Return the methods of a model and its layers, and its losses, with their objects."""
    layers = list(model._flatten_layers(include_self=True, recursive=True))
    methods = [model.train_step, model.compute_loss, *(one.call for one in layers)]
    loss = getattr(model, "loss", None)
    losses = list(loss.values()) if isinstance(loss, dict) else loss
    losses = list(losses) if isinstance(losses, list | tuple) else [losses]
    return [
        *((one, getattr(one, "__self__", None)) for one in methods),
        *((one, None) for one in losses if callable(one)),
    ]
