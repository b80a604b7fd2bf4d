"""Redaction: values that the user does not want stored, reduced to type and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.core.snapshots import Tree
from mothtrap.snapshot.tree import TreeMaker
from mothtrap.statistics.torch.dtypes import type_name


class RedactingMaker(TreeMaker):
    """Replaces redacted values with a description."""

    def __init__(
        self,
        framework: Callable[[Any], Tree],
        array: Callable[[npt.NDArray[Any]], Tree],
        most_values: int,
        redacted: Callable[[str], bool],
    ) -> None:
        super().__init__(framework, array, most_values)
        self._redacted = redacted

    def _dict(self, value: Any, depth: int) -> dict[str, Any]:
        return super()._dict(self._without(value), depth)

    def _fields(self, fields: Any, depth: int) -> dict[str, Tree]:
        return super()._fields(self._without(fields), depth)

    def _without(self, values: Any) -> Any:
        return {k: _Redacted(v) if self._redacted(str(k)) else v for k, v in values.items()}

    def tree(self, value: Any, depth: int = 0) -> Tree:
        """Convert a value to a tree."""
        return redaction(value.value) if type(value) is _Redacted else super().tree(value, depth)


class _Redacted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return a function that tests whether a name is redacted."""
    return lambda name: any(fnmatchcase(name, pattern) for pattern in patterns)


def redaction(value: Any) -> Tree:
    """Return the tree of a redacted value."""
    return {"redacted": described(value)}


def described(value: Any) -> str:
    """Describe type and shape of a value."""
    if isinstance(value, torch.Tensor | np.ndarray):
        dtype = type_name(value.dtype)
        return f"{dtype} of shape {tuple(value.shape)}"
    return type(value).__name__
