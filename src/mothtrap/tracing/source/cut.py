"""Find the line of a forward that detaches a tensor before a layer uses it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from types import FrameType

from mothtrap.tracing.source import frames
from mothtrap.tracing.source.syntax import parsed

CUTTING_CALLS = frozenset({"detach", "detach_", "numpy", "item", "tolist"})
CUTTING_ATTRIBUTES = frozenset({"data"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def cut_at(frame: FrameType | None) -> str | None:
    """Return the line that detaches a tensor that a frame passes to a module.

    Inspects the statement itself (`self.decoder(z.detach())`), then the last assignment above it in
    the function to each name that is passed to its calls (`z = z.detach()`).

    Args:
        frame: frame of the user's code that calls the module.

    Returns:
        `file:line`; None if the source shows no such line.
    """
    if frame is None:
        return None
    code = frame.f_code
    line = _line(code.co_filename, code.co_firstlineno, frame.f_lineno)
    return None if line is None else frames.line_of(code.co_filename, line)


@functools.lru_cache(maxsize=256)
def _line(filename: str, function_line: int, call_line: int) -> int | None:
    tree = parsed(filename)
    if tree is None:
        return None
    scope = _function(tree, function_line)
    statements = [node for node in ast.walk(scope) if isinstance(node, ast.stmt)]
    simple = [node for node in statements if not hasattr(node, "body")]
    current = next((s for s in simple if s.lineno <= call_line <= (s.end_lineno or s.lineno)), None)
    if current is None:
        return None
    if (cut := _cutting(current)) is not None:
        return cut.lineno
    for name in _names_passed(current):
        made = [
            node
            for node in simple
            if isinstance(node, ast.Assign) and node.lineno < current.lineno
            and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        ]  # fmt: skip
        if made and _cutting(latest := max(made, key=lambda node: node.lineno)) is not None:
            return latest.lineno
    return None


def _function(tree: ast.Module, first_line: int) -> ast.AST:
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == first_line:
                return node
    return tree


def _cutting(statement: ast.stmt) -> ast.expr | None:
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in CUTTING_CALLS:
                return node
        elif isinstance(node, ast.Attribute) and node.attr in CUTTING_ATTRIBUTES:
            return node
    return None


def _names_passed(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            for given in (*node.args, *(keyword.value for keyword in node.keywords)):
                yield from (n.id for n in ast.walk(given) if isinstance(n, ast.Name))
