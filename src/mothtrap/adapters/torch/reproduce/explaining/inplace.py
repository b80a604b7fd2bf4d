"""Lines of a model's own code that change tensors in place."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

from torch import nn

from mothtrap.adapters.torch import frames
from mothtrap.adapters.torch.naming import NameBook

MAX_LINES = 4
_KEEP_VALUES = ("requires_grad_", "retain_grad_", "share_memory_", "register_hook_")


def in_place_lines(book: NameBook) -> list[str]:
    """Return `file:line` of operations in place in the forwards of the user's modules."""
    found: dict[str, None] = {}
    for root in book.roots:
        model = root.module()
        for kind in {type(part): None for part in model.modules()} if model is not None else ():
            found |= dict.fromkeys(_of_class(kind))
    return list(found)[:MAX_LINES]


def _of_class(kind: type[nn.Module]) -> Iterator[str]:
    if kind.__module__.split(".")[0] == "torch":
        return
    try:
        source, first = inspect.getsourcelines(kind)
        filename = inspect.getsourcefile(kind) or ""
        tree = ast.parse(textwrap.dedent("".join(source)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if _changes_in_place(node):
            yield frames.line_of(filename, first + getattr(node, "lineno", 1) - 1)


def _changes_in_place(node: ast.AST) -> bool:
    if isinstance(node, ast.AugAssign):
        return True
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Subscript) for target in node.targets)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.endswith("_")
        and not node.func.attr.endswith("__")
        and node.func.attr not in _KEEP_VALUES
    )
