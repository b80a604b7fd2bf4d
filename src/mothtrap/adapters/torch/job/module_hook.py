"""A hook on a user's module that leaves no trace in copies of the module."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from torch import nn

from mothtrap.adapters.torch.job.uncompiled import uncompiled

FAST_PATH = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
"""Modules whose results are not bit-identical when they have hooks."""


@uncompiled
class ModuleHook:
    """A module hook that copies and pickles as a no-op standard library function.

    So `copy.deepcopy(model)` returns a copy that is not watched, and a model that was saved as a
    whole loads where mothtrap is not installed.
    """

    def __init__(self, call: Callable[..., None]) -> None:
        self._call = call

    def __call__(self, *args: Any) -> None:
        """Call the hooked functions."""
        self._call(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")


def inside_fast_path(model: nn.Module) -> set[nn.Module]:
    """Return the modules of a model that should have no hook."""
    return {
        inner
        for module in model.modules()
        if isinstance(module, FAST_PATH)
        for inner in module.modules()
    }
