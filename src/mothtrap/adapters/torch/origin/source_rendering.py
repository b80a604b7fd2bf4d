"""Conversion of values to Python source for a self-contained test."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.in_place import as_array

MAX_BYTES = 256 << 20
"""Maximum size of arrays next to a test. Chosen by hand: acceptable in a repository."""
BUILT = '''

def built(cls, training, values, parameters, buffers, modules):
    """A module as it was, made without its constructor."""
    module = cls.__new__(cls)
    torch.nn.Module.__init__(module)
    vars(module).update(values)
    for name, parameter in parameters.items():
        trained = parameter.requires_grad if parameter is not None else False
        weight = None if parameter is None else torch.nn.Parameter(parameter.detach(), trained)
        module.register_parameter(name, weight)
    for name, buffer in buffers.items():
        module.register_buffer(name, buffer)
    for name, part in modules.items():
        module.add_module(name, part)
    module.training = training
    module.__setstate__(dict(vars(module)))  # as unpickling does, for what refers to weights
    return module
'''
"""Source of the function with which `SourceRenderer.module` creates modules."""
_PLAIN = (bool, int, float, str, bytes, type(None), type(...), slice, complex)
_DEFINING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_STATE = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training")


class NotRenderableError(ValueError):
    """A value cannot be written as source code."""


class SourceRenderer:
    """Converts values to source code, and collects the arrays that it refers to.

    Attributes:
        arrays: arrays by key; types that NumPy lacks are stored as integers.
        imports: modules that the source imports.
        script: file of the user that the source imports as `script`.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.imports: set[str] = {"torch"}
        self.script: Path | None = None
        self._keys: dict[int, tuple[Any, str]] = {}
        self._bytes = 0

    def of(self, value: Any) -> str:
        """Return the source of an expression that recreates a value.

        Raises:
            NotRenderableError: there is no such expression.
        """
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, np.ndarray | np.generic):
            return f"array({self._key(value, np.asarray(value))!r})"
        if isinstance(value, nn.Module):
            return self.module(value)
        if isinstance(value, torch.Size):
            return f"torch.Size({list(value)})"
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
            return str(value)
        if isinstance(value, torch.device):
            return f"torch.device({str(value)!r})"
        if type(value) in _PLAIN:
            return _float(value) if isinstance(value, float) else repr(value)
        if type(value) in (list, tuple, dict, set):
            return self._container(value)
        return self.named(value)

    def module(self, module: nn.Module) -> str:
        """Return the source of a module with its weights, created without its constructor."""
        own = {
            name: value
            for name, value in vars(module).items()
            if name not in _STATE and not (name.startswith("_") and "hook" in name)
        }
        values = ", ".join(f"{name!r}: {code}" for name, code in self._tellable(own).items())
        parameters = self._tensors(module._parameters)
        buffers = self._tensors(module._buffers)
        parts = ", ".join(
            f"{name!r}: {'None' if part is None else self.module(part)}"
            for name, part in module._modules.items()
        )
        return (
            f"built({self.named(type(module))}, {module.training}, {{{values}}}, "
            f"{{{parameters}}}, {{{buffers}}}, {{{parts}}})"
        )

    def named(self, value: Any) -> str:
        """Return source that refers to a class or function by its definition."""
        name, owner = getattr(value, "__qualname__", None), getattr(value, "__module__", None)
        if not name or "<" in name or not callable(value):
            raise NotRenderableError(f"a {type(value).__name__} cannot be written as code")
        place = sys.modules.get(str(owner))
        found: Any = place
        for part in name.split("."):
            found = getattr(found, part, None)
        if place is None or found is not value:
            raise NotRenderableError(f"{name} cannot be imported from its module")
        return f"{self._place(place)}.{name}"

    def _place(self, place: ModuleType) -> str:
        file = getattr(place, "__file__", None)
        if place.__name__ != "__main__":
            self.imports.add(place.__name__)
            return place.__name__
        if file is None or not defines_only(Path(file)):
            raise NotRenderableError("the script trains when it is imported")
        self.script = Path(file).absolute()
        return "script"

    def _tensor(self, tensor: torch.Tensor) -> str:
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise NotRenderableError("a tensor is not dense")
        values = tensor.detach().cpu().contiguous()
        kind = type_name(tensor.dtype)
        if not hasattr(np, kind) and kind != "bool":
            values = values.view({1: torch.uint8, 2: torch.int16}[tensor.itemsize])
        trained = ", requires_grad=True" if tensor.requires_grad else ""
        return f"tensor({self._key(tensor, as_array(values))!r}, torch.{kind}{trained})"

    def _key(self, value: Any, array: npt.NDArray[Any]) -> str:
        if id(value) not in self._keys:
            self._bytes += array.nbytes
            if self._bytes > MAX_BYTES:
                raise NotRenderableError(f"its arrays have more than {MAX_BYTES >> 20} MB")
            key = f"a{len(self.arrays)}"
            self.arrays[key] = array.copy()
            self._keys[id(value)] = value, key
        return self._keys[id(value)][1]

    def _tensors(self, tensors: Mapping[str, torch.Tensor | None]) -> str:
        return ", ".join(
            f"{name!r}: {'None' if tensor is None else self._tensor(tensor)}"
            for name, tensor in tensors.items()
        )

    def _container(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.of(k)}: {self.of(v)}" for k, v in value.items()) + "}"
        parts = "".join(f"{self.of(part)}, " for part in value)
        if isinstance(value, list):
            return f"[{parts}]"
        return f"({parts})" if isinstance(value, tuple) else f"{{*[{parts}]}}"

    def _tellable(self, values: Mapping[str, Any]) -> dict[str, str]:
        told = {}
        for name, value in values.items():
            try:
                told[name] = self.of(value)
            except NotRenderableError:  # the test will be run, which shows whether this matters
                continue
        return told


def defines_only(script: Path) -> bool:
    """Return whether importing a script only defines names.

    Other code is behind a main guard.
    """
    try:
        tree = ast.parse(script.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return False
    return all(_defines(statement) for statement in tree.body)


def _defines(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        test = ast.unparse(statement.test)
        guarded = test.replace('"', "'") in ("__name__ == '__main__'", "'__main__' == __name__")
        return guarded and not statement.orelse
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return not any(isinstance(node, ast.Call) for node in ast.walk(statement))
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, _DEFINING)


def _float(value: float) -> str:
    return repr(value) if value == value and abs(value) != float("inf") else f"float('{value}')"
