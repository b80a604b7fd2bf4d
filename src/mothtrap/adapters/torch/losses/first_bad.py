"""Find the first operation of a loss that produced NaN or infinity from finite values.

The graph of a non-finite loss is traversed once, before its backward pass. Tensors saved by
operations show which values were finite: a saved result directly, and a saved input through the
operation that produced it. Some operations are recomputed from saved tensors. Additions, means and
views of finite values are finite unless they overflow. If nothing is known about some operations,
the result is an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import torch

from mothtrap.adapters.torch.job.graph import operation
from mothtrap.adapters.torch.losses.saved_values import (
    Node,
    SavedValues,
    nodes_in_order,
    producers,
)

Tensors = Mapping[str, torch.Tensor]

_MEAN = 1
"""Number of `reduction="mean"` in the graph."""
_RESULTS = frozenset({"result", "result0", "output", "out"})
_POSITIONS: Mapping[str, Mapping[str, int]] = {
    "AddmmBackward0": {"mat1": 1, "mat2": 2},
    "BaddbmmBackward0": {"batch1": 1, "batch2": 2},
    "AddcmulBackward0": {"tensor1": 1, "tensor2": 2},
    "AddcdivBackward0": {"tensor1": 1, "tensor2": 2},
    "LerpBackward1": {"self": 0, "end": 1, "weight": 2},
    "WhereBackward0": {},
    "CtcLossBackward0": {"log_probs": 0},
}
"""Positions of saved inputs among the inputs of a node, where they are unusual."""
_USUAL: Mapping[str, int] = {"self": 0, "input": 0, "other": 1, "exponent": 1, "mat2": 1}
_NO_VALUES = frozenset(
    {"target", "weight", "total_weight", "mask", "index", "indices", "condition"}
)
"""Saved tensors that are not values of the computation, or may be infinite on purpose."""
_MASKING = frozenset(
    [
        "where",
        "masked_fill",
        "index",
        "select",
        "slice",
        "gather",
        "index_select",
        "masked_select",
        "clamp",
        "clamp_min",
        "clamp_max",
        "maximum",
        "minimum",
        "max",
        "min",
        "nan_to_num",
        "topk",
        "sort",
        "unbind",
        "split",
        "split_with_sizes",
        "embedding",
        "as_strided",
        "narrow",
        "max_pool2d_with_indices",
    ]
)
"""Operations that may discard non-finite values."""
_PASSING = _MASKING | frozenset(
    [
        "view",
        "unsafe_view",
        "reshape",
        "alias",
        "squeeze",
        "unsqueeze",
        "transpose",
        "permute",
        "t",
        "expand",
        "clone",
        "movedim",
        "flatten",
        "cat",
        "stack",
        "repeat",
        "relu",
        "leaky_relu",
        "neg",
        "abs",
        "flip",
        "roll",
        "tril",
        "triu",
        "sigmoid",
        "tanh",
        "sin",
        "cos",
        "native_dropout",
        "avg_pool2d",
    ]
)
"""Operations whose results are finite if their inputs are."""
_OVERFLOWING = frozenset(
    [
        "add",
        "sub",
        "sum",
        "mean",
        "mul",
        "linear",
        "cumsum",
        "softplus",
        "elu",
        "gelu",
        "silu",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
    ]
)
"""Operations that turn finite values into infinite ones only if these exceed the range of their
type.
"""


class _Values(Enum):
    FINITE = "finite"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FirstBad:
    """The operation at which a loss became non-finite.

    Attributes:
        node: node of the graph; its result is not finite, and none of its inputs is known to be
            non-finite.
        since: first operation whose result is not known to be finite; `node` itself if its inputs
            were finite.
        inputs: saved inputs, by name.
        order: every node in the order of the forward pass.
        memory: memory of the results of nodes, if known.
    """

    node: Node
    since: Node
    inputs: Mapping[str, torch.Tensor]
    order: tuple[Node, ...]
    memory: Mapping[Node, int]


def first_bad(root: Node) -> FirstBad | None:
    """Find the first operation with finite inputs and a non-finite result.

    Args:
        root: `grad_fn` of a non-finite loss, before its backward pass.

    Returns:
        None if the data or weights were not finite, or if nothing is known.
    """
    with torch.no_grad():
        return _Search(root).run()


class _Search:
    def __init__(self, root: Node) -> None:
        self._root = root
        self._values = SavedValues()
        self._order = nodes_in_order(root)
        self._saved: dict[Node, Tensors] = {}
        self._result: dict[Node, _Values] = {}
        self._given_bad: set[Node] = set()
        self._assumed: set[Node] = set()
        self._sure: set[Node] = set()
        self._memory: dict[Node, int] = {}

    def run(self) -> FirstBad | None:
        """Read the saved tensors, nearest to the loss first, then walk the graph in order."""
        for node in reversed(self._order):
            self._saved[node] = self._values.of(node)
            self._take_evidence(node)
        self._result[self._root] = _Values.BAD
        for node in self._order:
            if node is self._root or self._result.get(node, _Values.UNKNOWN) is _Values.UNKNOWN:
                derived = self._derived(node)
                self._result[node] = _Values.BAD if node is self._root else derived
        bad = self._first_on_the_way()
        if bad in self._given_bad:
            return None
        since = self._beginning(bad)
        given = {n: t for n, t in self._saved[bad].items() if _is_value(n) and n not in _RESULTS}
        return FirstBad(bad, since, given, tuple(self._order), self._memory)

    def _take_evidence(self, node: Node) -> None:
        """Record what the saved tensors of a node show about its result and its inputs."""
        positions = _POSITIONS.get(str(node.name()), _USUAL)
        for name, tensor in self._saved[node].items():
            if name in _RESULTS:
                self._memory[node] = tensor.data_ptr()
            finite = self._values.is_finite(tensor) if _is_value(name) else None
            if finite is None:
                continue
            values = _Values.FINITE if finite else _Values.BAD
            place = positions.get(name, -1)
            if name in _RESULTS:
                self._result.setdefault(node, values)
            elif 0 <= place < len(node.next_functions):
                producer = node.next_functions[place][0]
                if producer is None or hasattr(producer, "variable"):
                    if not finite:
                        self._given_bad.add(node)
                elif producer in self._result and self._result[producer] is not values:
                    # Nodes with several outputs, or with ambiguous input positions.
                    self._result[producer] = _Values.BAD
                else:
                    self._result[producer] = values
                    self._memory.setdefault(producer, tensor.data_ptr())
            elif not finite and not node.next_functions:
                self._given_bad.add(node)

    def _derived(self, node: Node) -> _Values:
        name = operation(node)
        if self._averages_nothing(node, name):
            self._sure.add(node)
            return _Values.BAD
        inputs = {self._result.get(producer, _Values.UNKNOWN) for producer in producers(node)}
        if _Values.BAD in inputs or node in self._given_bad:
            return _Values.UNKNOWN if name in _MASKING else _Values.BAD
        if _Values.UNKNOWN in inputs:
            return _Values.UNKNOWN
        again = self._worked_out(node, name)
        if again is not None:
            self._sure.add(node)
            finite = self._values.is_finite(again)
            return _Values.UNKNOWN if finite is None else _OF[finite]
        if name in _OVERFLOWING:
            self._assumed.add(node)
        return _Values.FINITE if name in _PASSING | _OVERFLOWING else _Values.UNKNOWN

    def _averages_nothing(self, node: Node, name: str) -> bool:
        """Return whether an operation is the mean of no values: 0 / 0."""
        if name == "mean":
            return getattr(node, "_saved_self_sym_numel", 1) == 0
        weight = self._saved[node].get("total_weight")
        is_mean = getattr(node, "_saved_reduction", None) == _MEAN
        return name == "nll_loss" and is_mean and weight is not None and not weight.any()

    def _worked_out(self, node: Node, name: str) -> torch.Tensor | None:
        """Recompute an operation that saved all of its inputs."""
        saved = self._saved[node]
        own, other = saved.get("self"), saved.get("other")
        if name == "div" and other is not None:
            return (torch.ones(()) if own is None else own) / other
        if own is None:
            return None
        if name == "pow" and isinstance(getattr(node, "_saved_exponent", None), int | float):
            return own.pow(node._saved_exponent)
        if name == "mul" and other is not None:
            return own * other
        again = _AGAIN.get(name)
        return again(own) if again is not None else None

    def _first_on_the_way(self) -> Node:
        """Return the first bad node whose path to the loss is known to be bad, or may be."""
        for passed in ((_Values.BAD,), (_Values.BAD, _Values.UNKNOWN)):
            ways = frozenset(node for node in self._order if self._of(node) in passed)
            reached = self._reached(self._root, ways.__contains__)
            bad = [n for n in self._order if n in reached and self._of(n) is _Values.BAD]
            if bad[0] is not self._root:
                return bad[0]
        return self._root

    def _of(self, node: Node) -> _Values:
        return self._result.get(node, _Values.UNKNOWN)

    def _reached(self, node: Node, passes: Callable[[Node], bool]) -> set[Node]:
        """Return the node and all nodes that lead to it through operations that pass values on."""
        waiting, reached = [node], {node}
        while waiting:
            for producer in producers(waiting.pop()):
                if producer not in reached and passes(producer):
                    reached.add(producer)
                    waiting.append(producer)
        return reached

    def _beginning(self, bad: Node) -> Node:
        """Return the first node of unknown result that leads to a bad node, or else the bad node.

        If an addition or a similar operation is the first bad node, any operation before it may
        have overflowed.
        """
        if bad in self._sure:
            return bad
        overflows = operation(bad) in _OVERFLOWING

        def is_open(node: Node) -> bool:
            return self._of(node) is _Values.UNKNOWN or (overflows and node in self._assumed)

        def passes(node: Node) -> bool:
            return is_open(node) or (overflows and operation(node) in _PASSING)

        reached = self._reached(bad, passes)
        return next(
            node for node in self._order if node in reached and (node is bad or is_open(node))
        )


def _is_value(name: str) -> bool:
    return name not in _NO_VALUES


_OF = {True: _Values.FINITE, False: _Values.BAD}
_AGAIN: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1_p": torch.log1p,
    "acos": torch.acos,
    "asin": torch.asin,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "expm1": torch.expm1,
    "tan": torch.tan,
    "lgamma": torch.lgamma,
    "logit": torch.logit,
}
"""Operations of one argument that save the argument instead of the result."""
