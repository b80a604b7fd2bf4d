"""The assignment of a failing function that first holds NaN, read from its variables."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from types import FrameType

import torch

from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.reproduce.explaining.names import value_of
from mothtrap.tracing import frames

MAX_ELEMENTS = 1 << 22
"""Elements of a variable that are looked at, at most; chosen by hand: a few milliseconds."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class FirstNan:
    """An assignment whose result holds NaN while all that it was made of is finite."""

    code: str
    location: str
    operands: tuple[tuple[str, float, float], ...]

    def in_words(self) -> str:
        """Return the assignment, its line, and the ranges of what it was made of."""
        ranges = ", ".join(
            f"{name} from {least:.4g} to {most:.4g}" for name, least, most in self.operands
        )
        return f"`{self.code}` ({self.location}) made it" + (f" of {ranges}" if ranges else "")


def first_nan(frame: FrameType | None, before: int) -> FirstNan | None:
    """Look for the assignment that made NaN of finite numbers.

    Args:
        frame: where the exception passed, of the user's code.
        before: line at which it did.

    Returns:
        None where no variable tells: it was assigned again since, or an expression without
        a name made the NaN.
    """
    if frame is None:
        return None
    for node in _assignments(frame, before):
        if _has_nan(value_of(node.targets[0], frame)) is not True:
            continue
        operands = dict(_tensors(node.value, frame))
        if not operands or any(_has_nan(value) for value in operands.values()):
            return None  # what it was made of is NaN, too, or gone
        return FirstNan(
            code=ast.unparse(node),
            location=frames.line_of(frame.f_code.co_filename, node.lineno),
            operands=tuple((name, *_range(value)) for name, value in operands.items()),
        )
    return None


def has_nan(tensor: torch.Tensor) -> bool:
    """Report whether a tensor that can be read holds NaN."""
    return _has_nan(tensor) is True


def _assignments(frame: FrameType, before: int) -> list[ast.Assign]:
    """Return the simple assignments above a line in the function of a frame, first to last."""
    try:
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except (SyntaxError, ValueError):
        return []
    found: list[ast.Assign] = []
    scope: ast.AST = tree
    for node in ast.walk(tree):
        if isinstance(node, _SCOPES) and node.lineno <= before <= (node.end_lineno or 0):
            scope = node
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        if isinstance(node, _SCOPES):
            continue
        if isinstance(node, ast.Assign) and node.lineno < before and _is_simple(node):
            found.append(node)
        pending.extend(ast.iter_child_nodes(node))
    last = {ast.unparse(node.targets[0]): node for node in sorted(found, key=lambda n: n.lineno)}
    return sorted(last.values(), key=lambda node: node.lineno)


def _is_simple(node: ast.Assign) -> bool:
    """Report whether one name is assigned, and not from itself."""
    target = node.targets[0]
    if len(node.targets) != 1 or not isinstance(target, ast.Name):
        return False
    used = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
    return target.id not in used


def _tensors(node: ast.AST, frame: FrameType) -> list[tuple[str, torch.Tensor]]:
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        value = value_of(node, frame)
        if isinstance(value, torch.Tensor):
            return [(ast.unparse(node), value)]
    return [pair for child in ast.iter_child_nodes(node) for pair in _tensors(child, frame)]


def _has_nan(value: object) -> bool | None:
    """Report whether a tensor holds NaN; None where that cannot be seen."""
    if not isinstance(value, torch.Tensor) or not is_plain(value) or value.device.type != "cpu":
        return None
    if not value.is_floating_point() or value.numel() > MAX_ELEMENTS:
        return False
    return bool(value.detach().isnan().any())


def _range(value: torch.Tensor) -> tuple[float, float]:
    if not value.numel():
        return 0.0, 0.0
    return float(value.detach().min()), float(value.detach().max())
