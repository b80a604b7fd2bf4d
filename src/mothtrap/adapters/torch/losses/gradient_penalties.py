"""Gradient penalties, as in WGAN-GP: the axes over which they take the norm of a gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, Shape, operation, output_shape
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.core.facts.loss_terms import GradientPenalty

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_CONSTANTS = 3
"""Maximum number of added constants and views in a hand-written norm. Chosen by hand."""


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the number of inspected ones with such a penalty."""

    found: int = 0
    of: tuple[Shape, Shape] = ((), ())


class GradientPenaltyObserver(LineObserver[_Line]):
    """Detects the penalty `(norm - 1) ** 2` with a norm for each pixel of an image."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        shapes = _shapes(root)
        if shapes is not None:
            line.found += 1
            line.of = shapes
        if line.is_complete and line.found:
            gradient, norms = line.of
            self._job.recorder.notes.observe(
                GradientPenalty(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    found=line.found,
                    gradient=gradient,
                    norms=norms,
                    location=place,
                )
            )


def _shapes(root: Node) -> tuple[Shape, Shape] | None:
    """Return the shapes of a gradient of images and of its norms, if a sample has several."""
    for node in graph.nodes([root]):
        if operation(node) not in ("pow", "mul"):
            continue
        norm = _less_constant(_first(node))
        gradient = _under_norm(norm) if norm is not None else None
        if norm is None or gradient is None or not _is_of_images(gradient):
            continue
        shape, norms = output_shape(gradient), output_shape(norm)
        if shape and norms and len(shape) > 2 and max(norms[1:], default=1) > 1:
            return shape, norms
    return None


def _less_constant(node: Node | None) -> Node | None:
    """Return the minuend of a difference whose subtrahend has no graph."""
    if node is None or operation(node) != "sub":
        return None
    inputs = [child for child, _ in node.next_functions]
    return inputs[0] if len(inputs) == 2 and inputs[1] is None else None


def _under_norm(node: Node) -> Node | None:
    """Return the tensor whose norm a node is; a norm may be written by hand."""
    name = operation(node)
    if name in ("linalg_vector_norm", "norm"):
        return _first(node)
    if name != "sqrt":
        return None
    behind = _first(node)
    for _ in range(MAX_CONSTANTS):
        if behind is None or operation(behind) != "add":
            break
        behind = _first(behind)
    if behind is None or operation(behind) != "sum":
        return None
    square = _first(behind)
    return _first(square) if square is not None and operation(square) in ("pow", "mul") else None


def _is_of_images(gradient: Node) -> bool:
    """Return whether a tensor is the gradient of a convolution's input."""
    made = graph.through_views(gradient)
    return made is not None and operation(made) == "convolution_backward"


def _first(node: Node) -> Node | None:
    return next((child for child, _ in node.next_functions if child is not None), None)
