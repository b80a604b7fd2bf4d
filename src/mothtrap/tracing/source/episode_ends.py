"""Ends of episodes that a function of the user's source ignores, or uses inverted.

A function that computes `reward + gamma * value` must leave out the value after the last step of an
episode. It usually gets the ends for this purpose: `state, action, reward, after, done = batch`.
Then it multiplies the value by `1 - done`.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from mothtrap.tracing.source.frames import line_of
from mothtrap.tracing.source.mentions import MOST_FILES
from mothtrap.tracing.source.syntax import of_file

_ENDS = re.compile(r"(^|_)(not?_?)?(done|terminal|terminated|termination)s?($|_)", re.IGNORECASE)
"""Names of ends of episodes. Chosen by hand."""
_MASKS = re.compile(r"mask|final|nonterm|continu|discounts|alive|trunc", re.IGNORECASE)
"""Names of other numbers that are 0 at the end of an episode. Chosen by hand."""
_NEGATED = re.compile(r"(^|_)(not|non|no)|mask|alive|continu", re.IGNORECASE)
"""Names that contain an end but mean the opposite, such as `not_done`: they are 0 at the end."""
_CASTS = frozenset({"float", "double", "to", "type", "view", "reshape", "squeeze", "unsqueeze"})
_DISCOUNTS = re.compile(r"gamma|discount", re.IGNORECASE)
_REWARDS = re.compile(r"rew|^rs?$|^r_", re.IGNORECASE)


def unread_ends(files: Iterable[str]) -> tuple[str, str] | None:
    """Return the name of ends that are never read, and the line that discounts a value."""
    for file in sorted(files):
        found = _look(file)
        if found is not None:
            return found
    return None


def multiplied_ends(files: Iterable[str]) -> tuple[str, str] | None:
    """Return the name of ends by which a discounted value is multiplied, and the line."""
    found = (_multiplied(file) for file in sorted(files))
    return next((one for one in found if one is not None), None)


@functools.lru_cache(maxsize=MOST_FILES)
def _multiplied(file: str) -> tuple[str, str] | None:
    tree = of_file(file)
    for node in ast.walk(tree) if tree is not None else ():
        if discounts(node):
            for factor in (*_factors(node.left), *_factors(node.right)):
                name = factor.id if isinstance(factor, ast.Name) else ""
                if _ENDS.search(name) and not _NEGATED.search(name):
                    return name, line_of(file, node.lineno)
    return None


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the factors of a product, without casts and reshapes."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(node.left)
        yield from _factors(node.right)
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _CASTS
    ):
        yield from _factors(node.func.value)
    else:
        yield node


def discounted_line(files: Iterable[str]) -> str | None:
    """Return a line that adds a reward and a discounted value; None if there is none."""
    return next((line for file in sorted(files) if (line := _discount_in(file))), None)


@functools.lru_cache(maxsize=MOST_FILES)
def _discount_in(file: str) -> str | None:
    tree = of_file(file)
    nodes = ast.walk(tree) if tree is not None else ()
    line = next((node.lineno for node in nodes if discounts(node)), None)
    return line_of(file, line) if line is not None else None


@functools.lru_cache(maxsize=MOST_FILES)
def _look(file: str) -> tuple[str, str] | None:
    tree = of_file(file)
    if tree is None:
        return None
    found: list[tuple[str, int]] = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        line = next((node.lineno for node in ast.walk(function) if discounts(node)), None)
        if line is None:
            continue
        chosen = set(_choices(function))
        read = [name for name in _read(function) if name not in chosen]
        if any(_ENDS.search(name) or _MASKS.search(name) for name in read):
            return None
        found += [(name, line) for name in _received(function) if _ENDS.search(name)][:1]
    return (found[0][0], line_of(file, found[0][1])) if found else None


def discounts(node: ast.AST) -> TypeGuard[ast.BinOp]:
    """Return whether an expression is like `reward + gamma * value`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    for reward, product in ((node.left, node.right), (node.right, node.left)):
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
            is_reward = any(_REWARDS.search(name) for name in _read(reward))
            if is_reward and any(_DISCOUNTS.search(name) for name in _read(product)):
                return True
    return False


def _choices(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names of one-hot actions, which many scripts call masks."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if ast.unparse(node.value.func).endswith("one_hot"):
            yield from (one.id for one in node.targets if isinstance(one, ast.Name))


def _received(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names of parameters and of variables of a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _read(node: ast.AST) -> Iterator[str]:
    """Yield the names of variables, attributes, and keys that are read."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part.id
        elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load):
            yield part.attr
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
