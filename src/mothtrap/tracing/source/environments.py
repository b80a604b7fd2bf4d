"""Rewards that the user's source gets from an environment, and whether their sign is changed.

An environment of reinforcement learning returns rewards, which are maximized, and only rewards are
discounted. Costs, such as the length of a tour, are computed in other ways.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from mothtrap.tracing.source import frames
from mothtrap.tracing.source.mentions import MOST_FILES
from mothtrap.tracing.source.syntax import of_file

LEAST_RETURNED = 3
"""Minimum number of values that a step of an environment returns: state, reward, end."""
_NAMES = re.compile(
    r"^(r|g|q|td|ret|adv|gae)s?$|rew|return|advan|target|gain|delta|disc|score|cost",
    re.IGNORECASE,
)
"""Names of rewards and of numbers that are computed from them."""
_COSTS = re.compile(r"cost|loss|penal|regret|length|distance|energy", re.IGNORECASE)
"""Names of numbers that are minimized. Chosen by hand."""
_SQUARES = frozenset({"pow", "square", "abs", "norm"})
_NEGATIVES = frozenset({"neg", "neg_", "negative"})


def running_files() -> set[str]:
    """Return the user's files from whose functions the running line is called."""
    found, frame = set(), frames.user_frame()
    while frame is not None:
        if frames.is_users(frame):
            found.add(frame.f_code.co_filename)
        frame = frame.f_back
    return found


def maximizes_rewards(files: Iterable[str], others: Iterable[str] = ()) -> bool:
    """Return whether some files step an environment or discount, and no file subtracts rewards.

    Args:
        files: files that step an environment, if any does.
        others: further files that may compute rewards or losses.
    """
    known = [_look(file) for file in files]
    if not any(steps for steps, _ in known):
        return False
    return not any(negates for _, negates in known) and not any(_look(one)[1] for one in others)


@functools.lru_cache(maxsize=MOST_FILES)
def _look(file: str) -> tuple[bool, bool]:
    """Return whether a file steps an environment or discounts, and whether it subtracts rewards."""
    tree = of_file(file)
    if tree is None:
        return False, False
    rewards = any(_steps(node) or _discounts(node) for node in ast.walk(tree))
    return rewards, _negates(tree)


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
        and not _is_cost(target.elts[1])
    )


def _discounts(node: ast.AST) -> bool:
    """Return whether a statement is like `total = reward + gamma * total`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return False
    total, value = node.targets[0].id, node.value
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return False
    for reward, product in ((value.left, value.right), (value.right, value.left)):
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
            factors = [part.id for part in ast.walk(product) if isinstance(part, ast.Name)]
            # A moving average has two products.
            return total in factors and not isinstance(reward, ast.BinOp) and not _is_cost(reward)
    return False


def _is_cost(node: ast.expr) -> bool:
    return any(_COSTS.search(name) for name in _names(node))


def _negates(tree: ast.AST) -> bool:
    """Return whether a reward alone has a minus sign, or is subtracted from another number.

    A difference that is squared, such as the error of a critic, has no sign.
    """
    squared = {id(part) for node in ast.walk(tree) for part in _squared(node)}
    return any(
        ((operand := _negated(node)) is not None and _is_reward(operand))
        or (_is_difference(node) and id(node) not in squared and _is_reward(node.right, node.left))
        for node in ast.walk(tree)
    )


def _negated(node: ast.AST) -> ast.expr | None:
    """Return the operand of a minus sign, of a product with a negative number, or of `neg`.

    A sign before a product or a quotient more often belongs to a loss than to rewards.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = node.operand
        is_sum = isinstance(operand, ast.BinOp) and isinstance(operand.op, ast.Add | ast.Sub)
        return operand if is_sum or not isinstance(operand, ast.BinOp) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for number, other in ((node.left, node.right), (node.right, node.left)):
            if _is_negative(number):
                return other
    if isinstance(node, ast.AugAssign) and _is_negative(node.value):
        return node.target
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        inputs = [*node.args, node.func.value]
        return inputs[0] if node.func.attr in _NEGATIVES else None
    return None


def _is_negative(node: ast.AST) -> bool:
    if not isinstance(node, ast.UnaryOp) or not isinstance(node.op, ast.USub):
        return False
    return isinstance(node.operand, ast.Constant)


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
    """Return whether a name in an expression stands for rewards, and none for a probability.

    A value that is subtracted from rewards, such as their mean, does not change their sign.
    """
    if minuend is not None and _is_reward(minuend):
        return False
    names = _names(node)
    if any("log" in name.lower() or "prob" in name.lower() for name in names):
        return False
    return any(_NAMES.search(name) for name in names)


def _names(node: ast.AST) -> list[str]:
    names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    return names + [part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)]
