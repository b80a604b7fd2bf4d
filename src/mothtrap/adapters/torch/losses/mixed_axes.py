"""Views behind a loss that change the order of axes without moving the values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, Shape, operation, output_shape
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.core.facts.losses import MixedAxes
from mothtrap.tracing.describe.mixed_axes import mixes
from mothtrap.tracing.source.mentions import only_call

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

_VIEWS = frozenset({"view", "unsafe_view"})
_SLICES, _PADS = frozenset({"slice", "select", "narrow"}), frozenset({"constant_pad_nd"})
MAX_BETWEEN = 4
"""Maximum number of operations between a loss and the view of its prediction. Chosen by hand."""


@dataclass(frozen=True, slots=True)
class _Mixed:
    """Shapes before and after a view, or of a prediction and its targets."""

    given: Shape
    became: Shape
    targets: bool = False


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the latest view that was found."""

    mixed: int = 0
    latest: _Mixed | None = None


class MixedAxesObserver(LineObserver[_Line]):
    """Finds out from the graph of a loss how views change shapes."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        found = _flattened_apart(root) or _mixing_view(root)
        if found is not None:
            line.mixed += 1
            line.latest = found
        if line.is_complete and line.latest is not None:
            self._report(line, line.latest, place)

    def _report(self, line: _Line, found: _Mixed, place: str | None) -> None:
        view = None
        if not found.targets:
            view = only_call("view", "reshape", arguments=len(found.became))
        self._job.recorder.notes.observe(
            MixedAxes(
                step=self._job.grouper.step,
                looks=line.looks,
                mixed=line.mixed,
                given=found.given,
                became=found.became,
                targets=found.targets,
                location=view or place,
            )
        )


def _mixing_view(root: Node) -> _Mixed | None:
    """Return a view that mixes axes and is not part of a shift of relative positions.

    Such a shift intentionally pads or cuts a row between two views.
    """
    found: dict[Node, _Mixed] = {}
    skewed: set[Node] = set()
    for node in graph.nodes([root]):
        shapes = _shapes_of_view(node)
        source = _unsliced(node) if shapes is not None else None
        if shapes is None or source is None:
            continue
        if operation(source) in _PADS or (_swaps(node) and _swaps(source)):
            skewed |= {node, source}
        if mixes(*shapes) or (_is_attention(source) and _joins_heads(*shapes)):
            found[node] = _Mixed(*shapes)
    return next((mixed for node, mixed in found.items() if node not in skewed), None)


def _is_attention(node: Node) -> bool:
    """Return whether a node is attention with heads before positions, which have not been moved.

    A view merges the batch and the heads for a matrix product, and another view splits them.
    """
    while node is not None and operation(node) in ("clone", "dropout"):
        node = _behind(node)
    if node is None or operation(node) not in _VIEWS:
        return node is not None and operation(node).startswith("scaled_dot_product")
    made = _behind(node)
    return made is not None and made.name().startswith("Bmm")


def _joins_heads(given: Shape, became: Shape) -> bool:
    """Return whether heads and an equal number of positions are merged, which sizes cannot show."""
    if len(given) != 4 or len(became) != 3 or given[1] != given[2]:
        return False
    batch, heads, _, size = given
    return min(heads, size) > 1 and became == (batch, heads, heads * size)


def _unsliced(view: Node) -> Node:
    """Return the operation before a view, or before the slices that precede it."""
    node = _behind(view)
    while node is not None and operation(node) in _SLICES:
        node = _behind(node)
    return node


def _behind(node: Node) -> Node:
    return next((child for child, _ in node.next_functions if child is not None), None)


def _swaps(node: Node) -> bool:
    shapes = _shapes_of_view(node)
    return shapes is not None and shapes[0] != shapes[1] and sorted(shapes[0]) == sorted(shapes[1])


def _flattened_apart(root: Node) -> _Mixed | None:
    """Return the shapes of a prediction and its targets that were flattened in different orders."""
    for term in graph.loss_terms(root):
        # this may have happened without being visible
        target = loss_values.target(term, checkpointed=True)
        whole = getattr(target, "_base", None)
        if target is None or whole is None or whole.numel() != target.numel() or whole.ndim < 2:
            continue
        given = _viewed(term.node)
        shape = tuple(whole.shape)
        if given is None or shape[0] == shape[1] or 1 in shape[:2]:
            continue
        if given[: len(shape)] == (shape[1], shape[0], *shape[2:]):
            return _Mixed(given, shape, targets=True)
    return None


def _viewed(node: Node) -> Shape | None:
    """Return the shape of a prediction before it was flattened for its loss."""
    for _ in range(MAX_BETWEEN):
        node = _behind(node)
        if node is None:
            return None
        shapes = _shapes_of_view(node)
        if shapes is not None:
            return shapes[0]
    return None


def _shapes_of_view(node: Node) -> tuple[Shape, Shape] | None:
    if operation(node) not in _VIEWS:
        return None
    given, became = getattr(node, "_saved_self_sym_sizes", None), output_shape(node)
    if given is None or became is None:
        return None
    return tuple(int(size) for size in given), became
