"""Find lines in a model's own code that change tensors in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType, FunctionType

from torch import nn

from mothtrap.adapters.torch.job.naming import NameBook
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.syntax import parsed

MAX_LINES = 4
_KEEP_VALUES = ("requires_grad_", "retain_grad_", "share_memory_", "register_hook_")


def in_place_lines(book: NameBook) -> list[str]:
    """Return `file:line` of in-place operations in the forwards of the user's modules."""
    found: dict[str, None] = {}
    for root in book.roots:
        model = root.module()
        for kind in {type(part): None for part in model.modules()} if model is not None else ():
            found |= dict.fromkeys(_of_class(kind))
    return list(found)[:MAX_LINES]


def _of_class(kind: type[nn.Module]) -> Iterator[str]:
    if kind.__module__.split(".")[0] == "torch":
        return
    # At the end of the process, the module of a script no longer has `__file__`, but its code
    # objects still have the file name.
    for function in vars(kind).values():
        if isinstance(function, FunctionType) and function.__name__ != "__init__":
            yield from _of_code(function.__code__)


def _of_code(code: CodeType) -> Iterator[str]:
    tree = parsed(code.co_filename)
    if tree is None:
        return
    own = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    for function in own:
        first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
        if function.name == code.co_name and first == code.co_firstlineno:
            for node in ast.walk(function):
                if _changes_in_place(node):
                    yield frames.line_of(code.co_filename, getattr(node, "lineno", first))


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
