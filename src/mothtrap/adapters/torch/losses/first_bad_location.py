"""Location of the first bad operation of a loss: its display name and its module."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

import torch
from torch import nn

from mothtrap.adapters.torch.job.graph import operation, source
from mothtrap.adapters.torch.job.naming import NameBook
from mothtrap.adapters.torch.job.retained_outputs import Retained
from mothtrap.adapters.torch.losses.bad_operands import ctc_lengths, overflowed_type, words_of
from mothtrap.adapters.torch.losses.first_bad import FirstBad, first_bad
from mothtrap.adapters.torch.losses.saved_values import Node
from mothtrap.core.facts.nonfinite import FirstBadOperation
from mothtrap.tracing.source.mentions import only_call

_WORDS = {
    "log1_p": "torch.log1p",
    "to_copy": "the conversion to another type",
    "nll_loss": "torch.nn.functional.nll_loss",
    "native_layer_norm": "torch.nn.functional.layer_norm",
    "native_batch_norm": "torch.nn.functional.batch_norm",
    "convolution": "the convolution",
    "ctc_loss": "torch.nn.functional.ctc_loss",
}
_CTC_LENGTHS = ("input_lengths", "target_lengths")
MAY_OVERFLOW = frozenset(
    ["mul", "exp", "pow", "add", "sub", "sum", "mean", "mm", "bmm", "addmm", "linear", "mse_loss"]
)
"""Operations that turn finite values into infinite ones only if these exceed the range of their
type.
"""


def first_bad_operation(
    loss: torch.Tensor, retained: Iterable[Retained], book: NameBook, step: int, place: str | None
) -> FirstBadOperation | None:
    """Return the first operation that produced a NaN or infinite loss from finite values.

    Args:
        loss: loss with its graph, before its backward.
        retained: outputs of modules in order of completion.
        book: names of modules and parameters.
        step: the step that went wrong.
        place: line of the loss, for an operation that ran outside of modules and is called by
            several lines.
    """
    found = first_bad(loss.grad_fn) if loss.grad_fn is not None else None
    if found is None:
        return None
    path = _module_of(found, _Anchors(retained, book))
    module = book.module_called(path) if path else None
    return FirstBadOperation(
        step=step,
        operation=words(found.node),
        since=words(found.since) if found.since is not found.node else None,
        module=path,
        inputs=_inputs(found),
        overflowed=_overflowed(found),
        source=source(found.node),
        location=_line_of(found.node, module)
        or (book.location(module) if module is not None else place),
    )


def _inputs(found: FirstBad) -> tuple[str, ...]:
    """Describe the inputs of an operation, as far as its graph keeps them."""
    lengths = [getattr(found.node, f"_saved_{name}", None) for name in _CTC_LENGTHS]
    if operation(found.node) == "ctc_loss" and None not in lengths:
        short = ctc_lengths(*lengths)
        return (short,) if short else ()
    described = tuple(words_of(name, tensor) for name, tensor in found.inputs.items())
    targets = getattr(found.node, "_saved_target", None)
    ignored = getattr(found.node, "_saved_ignore_index", None)
    if not isinstance(targets, torch.Tensor) or ignored is None:
        return described
    if not targets.numel() or not bool((targets == _signed(ignored)).all()):
        return described
    return (f"all {targets.numel():,} targets are {_signed(ignored)}, which is ignored", *described)


def _signed(number: int) -> int:
    """Return a number of a graph, which keeps negative ones as unsigned 64-bit integers."""
    return number - 2**64 if number >= 2**63 else number


def _overflowed(found: FirstBad) -> str:
    """Return the 16-bit type whose range an operation exceeded; empty if it did not."""
    may = operation(found.node) in MAY_OVERFLOW
    return overflowed_type(found.inputs.values()) if may else ""


def words(node: Node) -> str:
    """Return an operation as users write it, such as `torch.log`."""
    name = operation(node)
    if name in _WORDS:
        return _WORDS[name]
    for owner in (torch, torch.nn.functional):
        if callable(getattr(owner, name, None)):
            return f"{owner.__name__}.{name}"
    return name


def _line_of(node: Node, module: nn.Module | None) -> str | None:
    """Return the only line that calls the operation, in the user's code or the module's."""
    if module is None:
        return only_call(operation(node))
    owner = sys.modules.get(type(module).__module__)
    return only_call(operation(node), among=[owner]) if owner is not None else None


class _Anchors:
    """Nodes for which the module that ran them is known."""

    def __init__(self, retained: Iterable[Retained], book: NameBook) -> None:
        self._book = book
        self._by_memory: dict[int, nn.Module] = {}
        for module, output in retained:
            if module is not None and output is not None and output.layout is torch.strided:
                self._by_memory.setdefault(output.data_ptr(), module)

    def path(self, node: Node, memory: Mapping[Node, int]) -> str | None:
        """Return the module whose output a node computed, or whose weights it reads."""
        module = self._by_memory.get(memory.get(node, -1))
        if module is not None:
            return self._book.module_name(module)
        for following, _ in node.next_functions:
            found = self._owner(following)
            if found is not None:
                return found
            if following is not None and operation(following) in ("t", "linear", "view"):
                for leaf, _ in following.next_functions:
                    found = self._owner(leaf) if operation(following) == "t" else None
                    if found is not None:
                        return found
        return None

    def is_users(self, path: str) -> bool:
        """Return whether a module without submodules is of a class defined by the user."""
        module = self._book.module_called(path)
        if module is None or next(module.children(), None) is not None:
            return False
        return not type(module).__module__.startswith("torch.nn.")

    def root(self, path: str) -> str:
        """Return the path of the model that contains a module."""
        module = self._book.module_called(path)
        root = self._book.root_of(module) if module is not None else None
        return root.path if root is not None else path

    def _owner(self, node: Node) -> str | None:
        variable = getattr(node, "variable", None)
        named = self._book.parameter_name(variable) if variable is not None else None
        return named[1] if named is not None else None


def _module_of(found: FirstBad, anchors: _Anchors) -> str:
    """Return the path of the module in which the operation ran; empty if after all."""
    place = found.order.index(found.node)
    own = anchors.path(found.node, found.memory)
    if own is not None:
        return own
    after = _nearest(found.order[place + 1 :], found.memory, anchors)
    before = _nearest(found.order[:place][::-1], found.memory, anchors)
    if after is None:
        return ""
    if anchors.is_users(after) or before is None:
        return after
    return _common(before, after) or anchors.root(after)


def _nearest(nodes: Iterable[Node], memory: Mapping[Node, int], anchors: _Anchors) -> str | None:
    return next((path for node in nodes if (path := anchors.path(node, memory)) is not None), None)


def _common(first: str, second: str) -> str:
    """Return the innermost module that contains two modules, or is one of them."""
    shared: list[str] = []
    for one, other in zip(first.split("."), second.split("."), strict=False):
        if one != other:
            break
        shared.append(one)
    return ".".join(shared)
