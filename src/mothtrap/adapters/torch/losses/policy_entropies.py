"""Entropies of a policy in its loss: whether the loss adds or subtracts them."""

from __future__ import annotations

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.overlaps import signs_of

MAX_BETWEEN = 4
"""Maximum number of views, limits, and small constants around a probability. Chosen by hand."""
FIRST_TERMS = 3
"""Number of steps of an episode whose entropies are inspected. Chosen by hand."""
_LIMITS = frozenset({"clamp", "clamp_min", "clamp_max", "add"})


def adds_entropy(root: Node) -> bool:
    """Return whether a loss contains entropies, and adds all of them.

    The entropy of a categorical distribution is `-(p * p.log()).sum()`, and that of a normal
    distribution is a constant plus the logarithm of the scale.

    Args:
        root: last operation of the loss.
    """
    products = {_added_if(negated) for negated in signs_of(root, _is_product, FIRST_TERMS)}
    scales = {negated is False for negated in signs_of(root, _is_of_scale, FIRST_TERMS)}
    return products | scales == {True}


def _added_if(negated: bool | None) -> bool:
    """Return whether an entropy is added, given the sign of `p * p.log()`."""
    return negated is True


def _is_product(node: Node) -> bool:
    """Return whether a node multiplies a probability with its own logarithm."""
    factors = [graph.through_views(child) for child, _ in node.next_functions]
    if operation(node) != "mul" or len(factors) != 2:
        return False
    first, second = factors
    return _is_log_of(first, second) or _is_log_of(second, first)


def _is_log_of(log: Node | None, probability: Node | None) -> bool:
    log = _without_limits(log)
    if log is None or probability is None:
        return False
    name, behind = operation(log), _first(log)
    if name == "log":
        return _without_limits(behind) is _without_limits(probability)
    if name == "log_softmax" or (name == "sub" and _subtracts_logsumexp(log)):
        if operation(probability) == "exp":
            return graph.through_views(_first(probability)) is log
        is_softmax = operation(probability) == "softmax"
        return is_softmax and graph.through_views(_first(probability)) in (log, behind)
    return False


def _is_of_scale(node: Node) -> bool:
    """Return whether a node adds a constant to a logarithm, as in the entropy of a normal."""
    inputs = [child for child, _ in node.next_functions]
    if operation(node) != "add" or inputs.count(None) != 1 or len(inputs) != 2:
        return False
    log = next(child for child in inputs if child is not None)
    return operation(log) == "log"


def _subtracts_logsumexp(node: Node) -> bool:
    inputs = [graph.through_views(child) for child, _ in node.next_functions]
    return len(inputs) == 2 and inputs[1] is not None and operation(inputs[1]) == "logsumexp"


def _without_limits(node: Node | None) -> Node | None:
    """Return the operation behind views, limits, and added constants."""
    for _ in range(MAX_BETWEEN):
        node = graph.through_views(node)
        if node is None or operation(node) not in _LIMITS:
            break
        others = [child for child, _ in node.next_functions if child is not None]
        if len(others) != 1:
            break
        node = others[0]
    return node


def _first(node: Node) -> Node | None:
    return graph.through_views(node.next_functions[0][0]) if node.next_functions else None
