"""Losses as they were before a gradient scaler multiplied them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch


class ScaledLosses:
    """Remembers the scale of the latest loss that a gradient scaler multiplied."""

    def __init__(self) -> None:
        self._scaled: weakref.ref[torch.Tensor] | None = None
        self._scale = 1.0

    def install(self) -> None:
        """Detect calls to `GradScaler.scale` for the life of the process."""
        scale: Callable[..., Any] = torch.amp.GradScaler.scale

        @functools.wraps(scale)
        def scaled(scaler: Any, outputs: Any) -> Any:
            result = scale(scaler, outputs)
            if isinstance(result, torch.Tensor):
                self._scaled, self._scale = weakref.ref(result), float(scaler.get_scale())
            return result

        setattr(torch.amp.GradScaler, "scale", scaled)  # noqa: B010  # for the type checker

    def value(self, root: torch.Tensor) -> float:
        """Return the unscaled starting value of a backward pass."""
        is_scaled = self._scaled is not None and self._scaled() is root
        return float(root.detach()) / (self._scale if is_scaled and self._scale else 1.0)
