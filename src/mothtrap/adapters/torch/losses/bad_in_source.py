"""Find the operation in the user's source that made a value NaN or infinite."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from types import FrameType
from typing import Any

import msgspec
import numpy as np
import torch
from torch import nn

from mothtrap.adapters.torch.data.nonfinite_inputs import spots_in
from mothtrap.adapters.torch.job.retained_outputs import Retained
from mothtrap.adapters.torch.losses.bad_operands import in_words, overflowed_type
from mothtrap.adapters.torch.source.bad_values import BadValue, BadValueSearch
from mothtrap.adapters.torch.source.derivatives import DerivativeSearch
from mothtrap.adapters.torch.source.scopes import running_call
from mothtrap.core.facts.data import NonfiniteInput
from mothtrap.core.facts.nonfinite import FirstBadOperation
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.syntax import parsed

_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.USub: "neg",
}
_BACKWARDS = ("backward", "manual_backward")
MAX_ROWS = 4
"""Maximum number of named rows."""


def of_call(frame: FrameType | None, outputs: Iterable[Retained]) -> BadValue | None:
    """Return the origin of a bad value passed to the call that a frame is making.

    Args:
        frame: frame of the user's code; required for any result.
        outputs: modules with their outputs in the latest forward pass.
    """
    call = running_call(frame) if frame is not None else None
    if frame is None or call is None:
        return None
    return BadValueSearch(outputs).in_call(call, frame)


def of_backward(
    frame: FrameType | None, site: str, outputs: Iterable[Retained], *, finite: bool
) -> BadValue | None:
    """Return the cause of NaN or infinite gradients after a backward pass.

    Args:
        frame: the frame that called backward, directly or indirectly.
        site: line of the backward call.
        outputs: modules with their outputs in the latest forward pass.
        finite: the loss is finite, so that a derivative must be infinite.
    """
    while frame is not None:
        call = _backward_call(frame, site)
        if call is not None:
            values = BadValueSearch(outputs)
            return (DerivativeSearch(values) if finite else values).in_call(call, frame)
        frame = frame.f_back
    return None


def fact_of(found: BadValue, step: int, *, backward: bool = False) -> FirstBadOperation:
    """Return the fact about an operation in the source.

    Args:
        found: the operation.
        step: the faulty step.
        backward: the derivative of the operation is infinite, not its result.
    """
    operands = [(name, value) for name, value in found.operands]
    name = operation_name(found)
    return FirstBadOperation(
        step=step,
        operation=name,
        inputs=in_words(name, operands),
        rows=_rows(found.value),
        overflowed=overflowed_type([value for _, value in operands], found.value),
        backward=backward,
        location=found.location,
    )


def input_of(found: BadValue, step: int, place: str | None) -> NonfiniteInput | None:
    """Return the fact about a value that was already non-finite when the script received it.

    Args:
        found: the value; weights of a model are skipped.
        step: the faulty step.
        place: line of the loss.
    """
    value = found.value
    if isinstance(value, nn.Parameter) or not isinstance(value, torch.Tensor | np.ndarray):
        return None
    tensor = torch.as_tensor(value).detach()
    spots = spots_in(tensor)
    if spots is None:
        return None
    return NonfiniteInput(
        step=step,
        tensor=found.code,
        source="the loss",
        from_loader=False,
        nan=spots.nan,
        inf=spots.inf,
        rows=spots.rows,
        row_count=spots.row_count,
        location=found.location or place,
    )


def joined(written: FirstBadOperation, graph: FirstBadOperation | None) -> FirstBadOperation:
    """Add facts from the graph about the same operation: its module, and its input's source."""
    if graph is None or graph.since is not None:
        return written
    if graph.operation.rpartition(".")[2] != written.operation.rpartition(".")[2]:
        return written
    return msgspec.structs.replace(written, module=graph.module, source=graph.source)


def operation_name(found: BadValue) -> str:
    """Return an operation as users write it, such as `torch.log`."""
    node = found.node
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        return _qualified(_OPERATORS.get(type(node.op), "operator"), found)
    if not isinstance(node, ast.Call):
        return found.code
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
    return _qualified(name.rpartition(".")[2], found)


def _qualified(name: str, found: BadValue) -> str:
    """Return the name of a function with its library; for a layer, of its function."""
    if any(isinstance(value, np.ndarray | np.generic) for _, value in found.operands):
        return f"numpy.{'divide' if name == 'div' else name}"
    layer = _layer_of(found)
    if layer is not None:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", layer).lower()
    for owner in (torch, nn.functional):
        if callable(getattr(owner, name, None)):
            return f"{owner.__name__}.{name}"
    return f"torch.nn.{layer}" if layer is not None else name


def _layer_of(found: BadValue) -> str | None:
    node = found.node
    callee = found.callee if isinstance(node, ast.Call) else None
    return type(callee).__name__ if isinstance(callee, nn.Module) else None


def _rows(value: Any) -> tuple[int, ...]:
    """Return the first few non-finite rows of a result; empty if all rows are, or if unknown."""
    if not isinstance(value, torch.Tensor | np.ndarray) or value.ndim < 1 or len(value) < 2:
        return ()
    finite = torch.isfinite(torch.as_tensor(value).detach())
    bad = (~finite).reshape(len(finite), -1).any(dim=1)
    rows: list[int] = bad.nonzero().reshape(-1).tolist()
    return tuple(rows[:MAX_ROWS]) if len(rows) < len(finite) else ()


def _backward_call(frame: FrameType, site: str) -> ast.Call | None:
    """Return the call to `backward` on a line of the function that a frame runs."""
    code = frame.f_code
    file, _, line = site.rpartition(":")
    if not line.isdigit() or frames.line_of(code.co_filename, int(line)) != site or not file:
        return None
    tree = parsed(code.co_filename)
    if tree is None:
        return None
    for node, _ in frames.own_nodes(frames.scope_of(tree, code, frame.f_lineno)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            inside = node.lineno <= int(line) <= (node.end_lineno or node.lineno)
            if inside and node.func.attr in _BACKWARDS:
                return node
    return None
