"""Targets such as `reward + gamma * value` that are computed under the tape of their loss."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator

from mothtrap.tracing.source.episode_ends import discounts
from mothtrap.tracing.source.frames import line_of
from mothtrap.tracing.source.mentions import MOST_FILES
from mothtrap.tracing.source.syntax import of_file

_DEPTH = 4
"""Maximum number of assignments between a value and its expression; chosen by hand."""
_CUTS = frozenset({"stop_gradient", "numpy", "stop_recording"})
_TRAINED = frozenset({"trainable_variables", "trainable_weights", "variables", "weights"})


def taped_target(files: Iterable[str]) -> str | None:
    """Return the line that computes `reward + gamma * value` under a tape; None if there is none.

    The value comes from a model that the tape differentiates, and that also computes the prediction
    under this tape.
    """
    return next((line for file in sorted(files) if (line := _look(file))), None)


@functools.lru_cache(maxsize=MOST_FILES)
def _look(file: str) -> str | None:
    tree = of_file(file)
    if tree is None:
        return None
    trained = {
        ast.unparse(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in _TRAINED
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and any(map(_is_tape, node.items)):
            line = _target_under(node, trained)
            if line is not None:
                return line_of(file, line)
    return None


def _is_tape(item: ast.withitem) -> bool:
    call = item.context_expr
    return isinstance(call, ast.Call) and ast.unparse(call.func).endswith("GradientTape")


def _target_under(tape: ast.With, trained: set[str]) -> int | None:
    made: dict[str, ast.expr] = {}
    for node in ast.walk(tape):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            made[ast.unparse(node.targets[0])] = node.value
    if any(map(_is_cut, ast.walk(tape))):
        return None
    calls = [call for node in tape.body for call in _calls(node) if call in trained]
    for node in ast.walk(tape):
        if not discounts(node):
            continue
        parts = list(_expanded(node, made, _DEPTH))
        inside = [call for part in parts for call in _calls(part) if call in trained]
        if inside and calls.count(inside[0]) > 1:
            return node.lineno
    return None


def _expanded(node: ast.AST, made: dict[str, ast.expr], depth: int) -> Iterator[ast.AST]:
    """Yield an expression, and those of the names in it that are assigned under the tape."""
    yield node
    for inner in ast.walk(node) if depth else ():
        if isinstance(inner, ast.Name) and inner.id in made:
            yield from _expanded(made[inner.id], made, depth - 1)


def _calls(node: ast.AST) -> Iterator[str]:
    return (ast.unparse(one.func) for one in ast.walk(node) if isinstance(one, ast.Call))


def _is_cut(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _CUTS
