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
_KEEPS = frozenset({"append", "extend", "push", "add", "store", "remember", "put"})
"""Methods of a memory that keeps transitions."""
_NUMBERS = frozenset({"float", "int", "bool", "float32", "int32", "int64", "bool_"})
_TENSORS = re.compile(r"tensor$|from_numpy|stack|cat$|concatenate|array$", re.IGNORECASE)
"""Names of functions that make a batch of numbers."""
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
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for scope in (tree, *scopes):
        nodes = list(_own_nodes(scope) if scope is tree else ast.walk(scope))
        line = next((node.lineno for node in nodes if discounts(node)), None)
        if line is None:
            continue
        chosen = set(_choices(nodes))
        read = [name for node in nodes for name in _read_at(node) if name not in chosen]
        if any(_MASKS.search(name) and not _ENDS.search(name) for name in read):
            return None
        if any(_ENDS.search(name) for name in read):
            batched = _only_batched(nodes)
            if batched is None:
                return None
            found.append((batched, line))
        elif scope is not tree:
            found += [(name, line) for name in _received(scope) if _ENDS.search(name)][:1]
    return (found[0][0], line_of(file, found[0][1])) if found else None


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module outside of its functions and classes."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
            yield from _own_nodes(node)


def _only_batched(nodes: list[ast.AST]) -> str | None:
    """Return the name of a batch of ends that nothing reads; None if ends are read.

    Reading an end is harmless in a condition (`if done:`), in a call that keeps the transition, and
    in an assignment that turns ends into a batch of ends (`done = torch.tensor(done)`).
    """
    harmless: set[int] = set()
    made: list[str] = []
    for node in nodes:
        if isinstance(node, ast.If | ast.While):
            harmless.update(map(id, _names_in(node.test, (ast.UnaryOp, ast.BoolOp))))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _KEEPS:
            for given in node.args:
                harmless.update(map(id, _names_in(given, (ast.Tuple, ast.List, ast.Call))))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            for target, value in _pairs(node.targets[0], node.value):
                if isinstance(target, ast.Name) and _ENDS.search(target.id):
                    harmless.update(map(id, ast.walk(value)))
                    if _makes_batch(value):
                        made.append(target.id)
    read = [
        node
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute | ast.Constant)
        and any(_ENDS.search(name) for name in _read_at(node))
    ]
    return made[0] if made and all(id(node) in harmless for node in read) else None


def _names_in(node: ast.AST, through: tuple[type[ast.AST], ...]) -> Iterator[ast.AST]:
    """Yield the names in an expression that consists of nodes of the given types only."""
    if isinstance(node, ast.Name):
        yield node
    elif isinstance(node, ast.Call):
        if getattr(node.func, "id", getattr(node.func, "attr", "")) in _NUMBERS:
            for given in node.args:
                yield from _names_in(given, through)
    elif isinstance(node, through):
        for part in ast.iter_child_nodes(node):
            yield from _names_in(part, through)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the parts of an assignment, of which both sides may be tuples."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        if len(target.elts) == len(value.elts):
            yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def _makes_batch(value: ast.expr) -> bool:
    """Return whether an expression only turns ends into a batch, such as a tensor."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    names = [getattr(node.func, "attr", getattr(node.func, "id", "")) for node in calls]
    operations = (ast.BinOp, ast.Compare, ast.UnaryOp)
    return (
        any(map(_TENSORS.search, names))
        and any(map(_ENDS.search, _read(value)))
        and not any(isinstance(node, operations) for node in ast.walk(value) if not _is_index(node))
    )


def _is_index(node: ast.AST) -> bool:
    """Return whether a node is a negative number, as in `unsqueeze(-1)`."""
    return isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


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


def _choices(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names of one-hot actions, which many scripts call masks."""
    for node in nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if ast.unparse(node.value.func).endswith("one_hot"):
            yield from (one.id for one in node.targets if isinstance(one, ast.Name))


def _received(function: ast.AST) -> Iterator[str]:
    """Yield the names of parameters and of variables of a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _read(node: ast.AST) -> Iterator[str]:
    """Yield the names of variables, attributes, and keys that are read."""
    for part in ast.walk(node):
        yield from _read_at(part)


def _read_at(part: ast.AST) -> Iterator[str]:
    """Yield the name that a node itself reads, if any."""
    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
        yield part.id
    elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load):
        yield part.attr
    elif isinstance(part, ast.Constant) and isinstance(part.value, str):
        yield part.value
