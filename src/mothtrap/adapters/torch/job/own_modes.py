"""Modules of the user whose `forward` depends on the training mode.

It calls `functional.dropout(x, training=self.training)`, or updates buffers if `self.training`.
Neither is a module that could be recognized by its type, so the code of `forward` is read. A call
of `functional.dropout(x)` does not depend on the mode: it also drops values in evaluation mode. So
does a module such as `nn.Dropout` that `forward` creates, because it is no part of the model.
"""

from __future__ import annotations

import ast
import dis
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import ModuleType
from typing import Any

from torch import nn

from mothtrap.tracing.source import frames
from mothtrap.tracing.source.syntax import parsed

DROPOUTS = frozenset(["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"])
ON_BY_DEFAULT = DROPOUTS - {"alpha_dropout"}
"""Dropout functions that drop values unless `training=False` is passed."""
MODULES = frozenset(["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout"])
"""Classes of dropout modules."""
MAX_CLASSES = 1024
"""Number of classes whose code is remembered."""


def drops_values(module: nn.Module) -> bool:
    """Return whether the `forward` of a module calls a dropout function that is active in training.

    The rate is unknown. A module whose attributes for it, such as `self.dropout`, are all 0 drops
    nothing.
    """
    return _reads(type(module))[1] and _has_rate(module)


def updates_buffers(module: nn.Module) -> bool:
    """Return whether a module has buffers of its own, and a `forward` that reads the mode."""
    return _reads(type(module))[0] and any(
        buffer.is_floating_point() for buffer in module.buffers(recurse=False)
    )


def _reads(kind: type[nn.Module]) -> tuple[bool, bool]:
    """Return whether the `forward` of a class reads `training`, and also calls a dropout."""
    forward = getattr(kind, "forward", None)  # the class of scripted modules has none
    return _code_reads(inspect.unwrap(forward)) if forward is not None else (False, False)


@lru_cache(maxsize=MAX_CLASSES)
def _code_reads(forward: Any) -> tuple[bool, bool]:
    code = getattr(forward, "__code__", None)
    library = getattr(forward, "__module__", None) or ""
    if code is None or library.startswith("torch.") or "training" not in code.co_names:
        return False, False
    pairs = pairwise(dis.get_instructions(code))
    return True, any(_is_dropout(before, instruction) for before, instruction in pairs)


def _is_dropout(before: dis.Instruction, instruction: dis.Instruction) -> bool:
    """Return whether an instruction reads `F.dropout`, and not a module such as `self.dropout`."""
    if instruction.argval not in DROPOUTS:
        return False
    return "GLOBAL" in before.opname or before.argval == "functional"


@dataclass(frozen=True, slots=True)
class Unswitched:
    """Line of `forward` with a dropout that is always active; `created`: a module made there."""

    line: str
    created: bool


def unswitched_dropout(module: nn.Module) -> Unswitched | None:
    """Return the dropout in `forward` that does not depend on the training mode, if any.

    The default of the functions is `training=True`, so values are dropped in evaluation mode, too.
    A script that passes `training=True` itself, as for Monte Carlo dropout, does this on purpose.
    """
    forward = getattr(type(module), "forward", None)
    found = _without_mode(inspect.unwrap(forward)) if forward is not None else None
    return found if found is not None and (found.created or _has_rate(module)) else None


def _has_rate(module: nn.Module) -> bool:
    """Return False if a module has attributes for a dropout rate, and all of them are 0."""
    rates = [
        value
        for name, value in vars(module).items()
        if "drop" in name.lower() and isinstance(value, int | float)
    ]
    return not rates or any(rates)


@lru_cache(maxsize=MAX_CLASSES)
def _without_mode(forward: Any) -> Unswitched | None:
    code = getattr(forward, "__code__", None)
    if code is None or (ON_BY_DEFAULT | MODULES).isdisjoint(code.co_names):
        return None
    if not frames.is_users_file(code.co_filename):
        return None
    tree = parsed(code.co_filename)
    scope = frames.scope_of(tree, code, code.co_firstlineno) if tree is not None else None
    if not isinstance(scope, ast.FunctionDef) or scope.name != code.co_name:
        return None
    if _branches_on_mode(scope):
        return None
    calls = _dropout_calls(scope, getattr(forward, "__globals__", {}))
    found = [(call.lineno, False) for call in calls if _is_without_mode(call)]
    found += [(call.lineno, True) for call in _created_and_called(scope)]
    if not found:
        return None
    line, created = found[0]
    return Unswitched(frames.line_of(code.co_filename, line), created)


def _branches_on_mode(scope: ast.FunctionDef) -> bool:
    """Return whether a condition reads `training`, so that it may guard a dropout."""
    tests = [node.test for node in ast.walk(scope) if isinstance(node, ast.If | ast.IfExp)]
    return any(
        isinstance(part, ast.Attribute) and part.attr == "training"
        for test in tests
        for part in ast.walk(test)
    )


def _dropout_calls(scope: ast.FunctionDef, names: Mapping[str, Any]) -> Iterator[ast.Call]:
    """Yield calls such as `F.dropout(x)`, but not of a module such as `self.dropout(x)`.

    Args:
        scope: the function.
        names: its global names.
    """
    for node in ast.walk(scope):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in ON_BY_DEFAULT:
            owner = called.value
            of_library = isinstance(owner, ast.Name) and isinstance(names.get(owner.id), ModuleType)
            if of_library or (isinstance(owner, ast.Attribute) and owner.attr == "functional"):
                yield node
        elif isinstance(called, ast.Name) and called.id in ON_BY_DEFAULT:
            yield node


def _is_without_mode(call: ast.Call) -> bool:
    """Return whether a call passes at most the input and a rate above 0."""
    if len(call.args) > 2 or any(key.arg not in ("input", "p", "inplace") for key in call.keywords):
        return False
    rates = [*call.args[1:2], *(key.value for key in call.keywords if key.arg == "p")]
    return not any(isinstance(rate, ast.Constant) and not rate.value for rate in rates)


def _created_and_called(scope: ast.FunctionDef) -> Iterator[ast.Call]:
    """Yield calls such as `nn.Dropout(0.5)(x)`, whose module is always in training mode."""
    for node in ast.walk(scope):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Call):
            continue
        made = node.func
        kind = made.func
        name = kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", None)
        rates = [*made.args[:1], *(key.value for key in made.keywords if key.arg == "p")]
        switched_off = any(isinstance(rate, ast.Constant) and not rate.value for rate in rates)
        if name in MODULES and not switched_off:
            yield node
