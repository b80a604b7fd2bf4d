"""Containers that hold one module several times because the source multiplies a list."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeGuard

from torch import nn

from mothtrap.core.facts.modules import RepeatedModule
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.syntax import of_file

MOST_MODULES = 4096
"""Maximum number of modules of a model that are searched."""


def repeated(
    root: nn.Module, name: Callable[[nn.Module], str], is_trained: Callable[[nn.Module], bool]
) -> Iterator[RepeatedModule]:
    """Yield a fact for each container that holds a module several times.

    Args:
        root: the model.
        name: returns the path of a module.
        is_trained: returns whether an optimizer holds parameters of a module.
    """
    for owner, box in _containers(root):
        parts = [part for part in box._modules.values() if part is not None]
        counts = Counter(map(id, parts))
        for part in dict.fromkeys(parts):
            if counts[id(part)] < 2 or not is_trained(part):
                continue
            location = _multiplied_at(owner)
            if location is not None:
                yield RepeatedModule(
                    step=0,
                    container=name(box),
                    module_type=type(part).__name__,
                    copies=counts[id(part)],
                    elements=sum(p.numel() for p in part.parameters() if p.requires_grad),
                    location=location,
                )


def _containers(root: nn.Module) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Yield every list or sequence of modules, with the module that it is an attribute of."""
    for number, owner in enumerate(root.modules()):
        if number >= MOST_MODULES:
            return
        for box in owner.children():
            if isinstance(box, nn.ModuleList | nn.Sequential):
                yield owner, box


def _multiplied_at(owner: nn.Module) -> str | None:
    """Return the only line of a class that multiplies a list with a new module, if any."""
    source = sys.modules.get(type(owner).__module__)
    file = getattr(source, "__file__", None)
    if not isinstance(file, str) or not frames.is_users_file(file):
        return None
    tree = of_file(file)
    classes = [
        node
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.ClassDef) and node.name == type(owner).__name__
    ]
    lines = {
        node.lineno for one in classes for node in ast.walk(one) if _multiplies_new_module(node)
    }
    return frames.line_of(file, lines.pop()) if len(lines) == 1 else None


def _multiplies_new_module(node: ast.AST) -> TypeGuard[ast.BinOp]:
    """Return whether an expression is like `[Block()] * 4`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    return any(
        isinstance(side, ast.List) and len(side.elts) == 1 and isinstance(side.elts[0], ast.Call)
        for side in (node.left, node.right)
    )
