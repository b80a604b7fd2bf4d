"""Find out from the autograd graph how a loss was computed, whichever code computed it.

Only node names, shapes and integers are read: reading a saved tensor can re-run a checkpointed
segment. Node names and `_input_metadata` are private to PyTorch; the tests of this file cover them.
"""

from __future__ import annotations

import functools
import math
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import torch

Node: TypeAlias = Any  # torch.autograd.graph.Node, whose attributes differ by operation
Shape: TypeAlias = tuple[int, ...]

MAX_HEAD_NODES = 96
"""Maximum number of nodes from the root within which a loss is searched."""
MAX_NODES = 2_000
"""Maximum number of nodes visited in the search for parameters."""
MAX_CHAIN = 4
"""Maximum number of named operations before the loss."""
MAX_ABOVE = 8
"""Maximum number of named operations from the root to a loss."""

_VIEWS = frozenset(
    {
        "view",
        "unsafe_view",
        "reshape",
        "reshape_alias",
        "alias",
        "squeeze",
        "unsqueeze",
        "transpose",
        "permute",
        "t",
        "expand",
        "slice",
        "select",
        "clone",
        "to_copy",
        "index",
        "gather",
        "index_select",
        "masked_select",
        "movedim",
        "flatten",
        "detach",
        "unbind",
        "split",
    }
)
_ARITHMETIC = frozenset(
    {
        "mean",
        "sum",
        "add",
        "sub",
        "mul",
        "div",
        "neg",
        "where",
        "masked_fill",
        "stack",
        "cat",
        "pow",
        "abs",
        "sqrt",
        "clamp",
        "clamp_min",
        "clamp_max",
        "maximum",
        "minimum",
        "nan_to_num",
        "exp",
        "dot",
        "nanmean",
        "rsub",
    }
)
_KEEPS_SIGN = frozenset(
    {"mean", "sum", "add", "sub", "stack", "cat", "nanmean", "minimum", "maximum"}
)
"""Operations whose result has the sign of their operands, except the second operand of `sub`."""
_LINEAR = frozenset({"addmm", "mm", "linear", "bmm", "baddbmm", "convolution", "matmul"})
_ELEMENTWISE = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_KEEPS_ROWS = _VIEWS | {"log", "softmax", "log_softmax", "clamp", "clamp_min"}
_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}
_BINARY = {
    "binary_cross_entropy": "binary_cross_entropy",
    "binary_cross_entropy_with_logits": "binary_cross_entropy_with_logits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossTerm:
    """One loss operation of a graph, with its node; fields as in `LossCall`.

    `source` is the node that computed the prediction, without views; `target_first`: the loss is
    computed from target minus prediction instead of prediction minus target. `alone`: no other
    trained part was found to contribute to the loss. `above`: operations from the root to the loss.
    `negated`: this operation is subtracted; None if its sign is unknown. `complete`: the loss
    consists of loss operations only. `optimistic`: the loss is the more favorable of two values,
    including this one; None for a single value. `product`: the node that multiplies
    log-probabilities with soft targets.
    """

    operation: str
    chain: tuple[str, ...]
    prediction_shape: Shape | None
    target_shape: Shape | None = None
    result_shape: Shape | None = None
    classes: int | None = None
    node: Node
    reduction: str | None = None
    softmax_sizes: tuple[int, ...] = ()
    source: Node | None = None
    target_first: bool = False
    alone: bool = True
    above: tuple[str, ...] = ()
    negated: bool | None = None
    complete: bool = True
    optimistic: bool | None = None
    product: Node | None = None


def operation(node: Node) -> str:
    """Return a node's operation in snake case: `LogSoftmaxBackward0` -> `log_softmax`."""
    return _operation(str(node.name()))


@functools.lru_cache(maxsize=1024)
def _operation(node_name: str) -> str:
    name = re.sub(r"Backward\d*$", "", node_name.rpartition("::")[2])
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return "linear" if snake in _LINEAR else snake.replace("l1loss", "l1_loss")


def output_shape(node: Node) -> Shape | None:
    """Return the output shape of a node's forward operation."""
    metadata = getattr(node, "_input_metadata", None)
    return tuple(int(n) for n in metadata[0].shape) if metadata else None


def leaves(roots: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors to which a backward pass from given tensors adds a gradient."""
    several = roots if isinstance(roots, tuple | list) else (roots,)
    for node in nodes([root.grad_fn for root in several if isinstance(root, torch.Tensor)]):
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            yield variable


def leaves_behind(root: Node) -> tuple[list[torch.Tensor], bool]:
    """Return the tensors that get a gradient from a node, and whether the list is complete.

    There may be more behind a reentrant checkpoint, or in a graph of more than `MAX_NODES` nodes.
    """
    found: list[torch.Tensor] = []
    count, hides = 0, False
    for node in nodes([root]):
        count += 1
        hides = hides or "Checkpoint" in node.name()
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            found.append(variable)
    return found, count < MAX_NODES and not hides


def nodes(waiting: list[Node]) -> Iterator[Node]:
    """Yield the first nodes and their predecessors, at most `MAX_NODES`."""
    seen = 0
    known: set[int] = set()
    while waiting and seen < MAX_NODES:
        node = waiting.pop()
        if node is None or id(node) in known:
            continue
        known.add(id(node))
        seen += 1
        yield node
        waiting += [following for following, _ in node.next_functions]


class _Way(NamedTuple):
    """Path of operations from a root to a node; the last three attributes as in `LossTerm`."""

    above: tuple[str, ...]
    negated: bool | None
    optimistic: bool | None
    product: Node | None = None

    def through(self, node: Node, place: int) -> _Way:
        """Return the path to an operand of an operation, which is its last element."""
        name = operation(node)
        product = node if name == "mul" else self.product if name in _VIEWS else None
        above, negated, optimistic = (*self.above, name), self.negated, self.optimistic
        if name in ("minimum", "maximum"):
            optimistic = None if negated is None else (name == "maximum") is negated
        return _Way(above, sign_through(negated, name, place), optimistic, product)


def sign_through(negated: bool | None, name: str, place: int) -> bool | None:
    """Return whether an operand of an operation is subtracted from the loss; None if unknown.

    Args:
        negated: whether the result of the operation is subtracted.
        name: the operation.
        place: position of the operand.
    """
    if negated is None:
        return None
    if name in ("neg", "rsub") or (name == "sub" and place == 1):
        return not negated
    keeps = name in _KEEPS_SIGN or name in _VIEWS or (name == "div" and place == 0)
    return negated if keeps else None


def loss_terms(root: Node) -> list[LossTerm]:
    """Find the loss operations between a root and the model, nearest to the root first.

    Args:
        root: `grad_fn` of a loss.
    """
    terms: list[LossTerm] = []
    others = False
    waiting: deque[tuple[Node, _Way]] = deque([(root, _Way((), False, None))])
    seen = {root}
    while waiting and len(seen) <= MAX_HEAD_NODES:
        node, way = waiting.popleft()
        term = _term(node)
        if term is not None:
            negated = way.negated
            if operation(node) == "log_softmax" and negated is not None:
                negated = not negated  # in a hand-written loss, the logarithm is negated
            above = way.above[:MAX_ABOVE]
            term = replace(term, optimistic=way.optimistic, product=way.product)
            terms.append(replace(term, above=above, negated=negated))
            continue
        name = operation(node)
        if node is root or name in _ARITHMETIC or name in _VIEWS:
            for place, (child, _) in enumerate(node.next_functions):
                if child is not None and child not in seen:
                    seen.add(child)
                    waiting.append((child, way.through(node, place)))
        else:
            others = True
    found = _without_repeats(terms)
    if others or waiting:
        return [replace(term, alone=False, complete=False) for term in found]
    return found if len(found) == 1 else [replace(term, alone=False) for term in found]


def _term(node: Node) -> LossTerm | None:
    name = operation(node)
    if name.startswith("nll_loss") or name.endswith("ctc_loss"):
        return _class_loss(node)
    if name == "log_softmax":  # soft targets, or a hand-written cross entropy
        return _log_softmax_loss(node, node)
    if name in _BINARY or name in _ELEMENTWISE:
        kind = _BINARY.get(name, "elementwise")
        return _two_sided(node, kind, next(_children(node), None), None)
    if name == "mul" and is_ratio(next(_children(node), None)):
        return _policy_gain(node)
    if name in ("pow", "abs", "mul"):
        difference = through_views(next(_children(node), None))
        if difference is not None and operation(difference) == "sub":
            return _difference(node, difference)
    return None


def is_ratio(node: Node | None) -> bool:
    """Return whether a node is `exp(new - old)`, possibly clamped, with only `new` trained."""
    while node is not None and operation(node) in ("clamp", *_VIEWS):
        node = next(_children(node), None)
    if node is None or operation(node) != "exp":
        return False
    difference = through_views(next(_children(node), None))
    return (
        difference is not None
        and operation(difference) == "sub"
        and len(list(_children(difference))) == 1
    )


def _policy_gain(node: Node) -> LossTerm:
    """Return the loss of an advantage times the ratio of the new and old action probabilities."""
    return LossTerm(
        operation="policy_gain",
        chain=(),
        prediction_shape=output_shape(node),
        result_shape=output_shape(node),
        node=node,
    )


def _class_loss(node: Node) -> LossTerm:
    """Return the loss of labels; `ctc_loss` takes (time, batch, classes)."""
    given = next(_children(node), None)
    prediction = through_views(given)
    is_ctc = operation(node).endswith("ctc_loss")
    if not is_ctc and prediction is not None and operation(prediction) == "log_softmax":
        return _log_softmax_loss(node, prediction, given)
    shape = output_shape(prediction) if prediction is not None else None
    return LossTerm(
        operation="ctc_loss" if is_ctc else "nll",
        chain=chain(prediction),
        prediction_shape=shape,
        classes=shape[-1 if is_ctc else 1] if shape is not None and len(shape) > 1 else None,
        node=node,
        reduction=_reduction(node),
        softmax_sizes=_softmax_sizes(prediction),
        source=prediction,
    )


def _log_softmax_loss(node: Node, log_softmax: Node, given: Node | None = None) -> LossTerm:
    """Return the loss of a log-softmax in a class loss; `given`: the arguments of a label loss."""
    shape = output_shape(log_softmax)
    axis = _axis(log_softmax, len(shape)) if shape else None
    classes = shape[axis] if shape and axis is not None else None
    labelled = output_shape(given) if given is not None else None
    if labelled and shape and (_holds_as_many(labelled, shape) or _are_rows_of(labelled, shape)):
        classes = labelled[min(1, len(labelled) - 1)]
    return LossTerm(
        operation="cross_entropy",
        chain=chain(next(_children(log_softmax), None)),
        prediction_shape=shape,
        classes=classes,
        node=node,
        reduction=_reduction(node),
        softmax_sizes=_softmax_sizes(log_softmax),
        source=log_softmax,
    )


def _holds_as_many(shape: Shape, other: Shape) -> bool:
    return math.prod(shape) == math.prod(other)


def _are_rows_of(shape: Shape, whole: Shape) -> bool:
    """Return whether only rows were selected, such as the labeled nodes of a graph."""
    return len(shape) > 1 and shape[1:] == whole[1:]


def _difference(node: Node, sub: Node) -> LossTerm | None:
    """Return the loss of a hand-written squared or absolute difference.

    If both sides are trained, there is no target. If the prediction just got an additional axis,
    all pairs are compared, so the shape of the target is unknown.
    """
    children = list(_children(sub))
    if len(children) != 1:
        return None
    term = _two_sided(node, "elementwise", children[0], output_shape(sub))
    if operation(children[0]) == "unsqueeze":
        term = replace(term, target_shape=None)
    return replace(term, target_first=sub.next_functions[0][0] is None)


def _two_sided(node: Node, kind: str, prediction: Node | None, result: Shape | None) -> LossTerm:
    """Return the loss of a prediction and a target that should have the same shape.

    If the prediction was expanded to match the target, the target has the smallest shape that
    explains the result.
    """
    source = prediction
    if source is not None and operation(source) == "expand":
        result = output_shape(source)
        source = next(_children(source), source)
    shape = output_shape(source) if source is not None else None
    if result is None:
        result = shape
    target = _smallest_partner(shape, result) if shape is not None and result else None
    return LossTerm(
        operation=kind,
        chain=chain(source),
        prediction_shape=shape,
        target_shape=target,
        result_shape=result,
        classes=2 if kind.startswith("binary") else None,
        node=node,
        reduction=_reduction(node),
        softmax_sizes=_softmax_sizes(source),
        source=through_views(source),
    )


def _smallest_partner(shape: Shape, result: Shape) -> Shape:
    """Return the smallest shape that broadcasts with `shape` to `result`; `shape` if equal."""
    if shape == result:
        return shape
    padded = (1,) * (len(result) - len(shape)) + shape
    needed = [r if p == 1 else 1 for p, r in zip(padded, result, strict=True)]
    while len(needed) > 1 and needed[0] == 1:
        needed.pop(0)
    return tuple(needed)


def _children(node: Node) -> Iterator[Node]:
    return (child for child, _ in node.next_functions if child is not None)


def is_arithmetic(node: Node) -> bool:
    """Return whether a node adds, weights, averages, or reshapes losses."""
    name = operation(node)
    return name in _ARITHMETIC or name in _VIEWS


def through_views(node: Node | None) -> Node | None:
    """Return the first operation behind changes of shape or type and element selections."""
    while node is not None and operation(node) in _VIEWS:
        node = next(_children(node), None)
    return node


def source(node: Node) -> str:
    """Return the operation that produced an operation's first input, through views; "" if none."""
    made = through_views(next(_children(node), None))
    return operation(made) if made is not None else ""


def chain(node: Node | None) -> tuple[str, ...]:
    """Return the operations that end in a node, nearest first, without views and casts."""
    names: list[str] = []
    while len(names) < MAX_CHAIN:
        node = through_views(node)
        if node is None or operation(node) == "accumulate_grad":
            break
        names.append(operation(node))
        node = next(_children(node), None)
    return tuple(names)


def _axis(node: Node, ndim: int) -> int | None:
    """Return the `dim` of a node, counted from 0 (saved as an unsigned number)."""
    dim = getattr(node, "_saved_dim", None)
    if not isinstance(dim, int):
        return None
    return dim if dim < ndim else dim - 2**64 + ndim


def _reduction(node: Node) -> str | None:
    """Return the reduction of a loss operation over its elements."""
    saved = getattr(node, "_saved_reduction", None)
    return _REDUCTIONS.get(saved) if isinstance(saved, int) else None


def _softmax_sizes(node: Node | None) -> tuple[int, ...]:
    """Return the axis sizes of the (log-)softmaxes directly before a loss, nearest first.

    Sizes before a view that drops or repeats values cannot be compared.
    """
    found: list[int] = []
    elements: int | None = None
    while node is not None and _keeps_rows(node):
        shape = output_shape(node)
        if shape is None or elements not in (None, math.prod(shape)):
            break
        elements = math.prod(shape)
        axis = _axis(node, len(shape))
        if operation(node).endswith("softmax") and axis is not None:
            found.append(shape[axis])
        node = next(_children(node), None)
    return tuple(found)


def _keeps_rows(node: Node) -> bool:
    """Return whether the result of the operation is still a softmax, maybe plus a small number."""
    name = operation(node)
    return name in _KEEPS_ROWS or (name == "add" and len(list(_children(node))) == 1)


def _without_repeats(terms: list[LossTerm]) -> list[LossTerm]:
    """Merge the two paths through which label smoothing reaches one log-softmax."""
    has_nll = any(operation(t.node).startswith("nll") for t in terms)
    return [
        t
        for t in terms
        if not (has_nll and t.operation == "cross_entropy" and operation(t.node) == "log_softmax")
    ]
