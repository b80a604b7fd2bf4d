"""Rewards that the user's source gets from an environment, and whether it changes their sign.

An environment of reinforcement learning returns rewards, which are maximized. Costs, such as the
length of a tour, are computed in other ways.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from mothtrap.tracing.source import frames
from mothtrap.tracing.source.mentions import MOST_BYTES, MOST_FILES

LEAST_RETURNED = 3
"""Values that a step of an environment returns: state, reward, end."""
_NAMES = re.compile(
    r"^(r|g|q|td|ret|adv|gae)s?$|rew|return|advan|target|gain|delta|disc|score|cost",
    re.IGNORECASE,
)
"""Names of rewards and of numbers that are computed from them."""
_SQUARES = frozenset({"pow", "square", "abs", "norm"})


def running_files() -> set[str]:
    """Return the user's files from whose functions the running line is called."""
    found, frame = set(), frames.user_frame()
    while frame is not None:
        if frames.is_users(frame):
            found.add(frame.f_code.co_filename)
        frame = frame.f_back
    return found


def maximizes_rewards(files: Iterable[str]) -> bool:
    """Return whether some files step an environment, and nowhere subtract rewards."""
    known = [_look(file) for file in files]
    return any(steps for steps, _ in known) and not any(negates for _, negates in known)


@functools.lru_cache(maxsize=MOST_FILES)
def _look(file: str) -> tuple[bool, bool]:
    """Return whether a file steps an environment, and whether it subtracts rewards."""
    try:
        with open(file, "rb") as opened:
            tree = ast.parse(opened.read(MOST_BYTES))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False, False
    return any(map(_steps, ast.walk(tree))), _negates(tree)


def _steps(node: ast.AST) -> bool:
    """Return whether a statement is like `state, reward, done, info = env.step(action)`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    call, target = node.value, node.targets[0]
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "step"
        and len(call.args) == 1
        and isinstance(target, ast.Tuple)
        and len(target.elts) >= LEAST_RETURNED
    )


def _negates(tree: ast.AST) -> bool:
    """Return whether a reward alone has a minus sign, or is subtracted from another number.

    A difference that is squared, such as the error of a critic, has no sign.
    """
    squared = {id(part) for node in ast.walk(tree) for part in _squared(node)}
    return any(
        (_is_minus(node) and _is_reward(node.operand))
        or (_is_difference(node) and id(node) not in squared and _is_reward(node.right, node.left))
        for node in ast.walk(tree)
    )


def _is_minus(node: ast.AST) -> TypeGuard[ast.UnaryOp]:
    if not isinstance(node, ast.UnaryOp) or isinstance(node.operand, ast.BinOp):
        return False
    return isinstance(node.op, ast.USub)


def _is_difference(node: ast.AST) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)


def _squared(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        yield node.left
    elif isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in _SQUARES:
            yield called.value
            yield from node.args


def _is_reward(node: ast.expr, minuend: ast.expr | None = None) -> bool:
    """Return whether a name in an expression is that of rewards, and none of a probability.

    What is subtracted from rewards, such as their mean, changes no sign.
    """
    if minuend is not None and _is_reward(minuend):
        return False
    names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    names += [part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    if any("log" in name.lower() or "prob" in name.lower() for name in names):
        return False
    return any(_NAMES.search(name) for name in names)
