"""The latent noise of a variational autoencoder, compared with the variance in its KL divergence.

The KL divergence from a standard normal distribution contains the log variance `v` and `exp(v)`. So
a sample of the latent code must be the mean plus noise times `exp(v / 2)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.saved_values import SavedValues
from mothtrap.core.facts.loss_terms import CodeNoise

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

_LINEAR = frozenset({"add", "sub", "rsub", "neg", "sum", "mean", "div", "mul"})
"""Operations between the terms of a loss and the loss."""
MAX_STEPS = 8
"""Maximum number of operations between noise and the log variance. Chosen by hand."""
Edge: TypeAlias = tuple[Node, int]
"""A value: the operation that computed it, and its position among the results."""
MEAN, VARIANCE, LOG_VARIANCE = "mean", "variance", "log variance"


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the results of their inspections.

    `factors` are the wrong factors of the noise, None for a right one. `alone` is the number of
    inspected passes in which the variance affects the loss only through the noise. `clipped` are
    the parts of the code that a ReLU clipped.
    """

    factors: set[str | None] = field(default_factory=set)
    clipped: set[tuple[str, ...]] = field(default_factory=set)
    alone: int = 0


class CodeNoiseObserver(LineObserver[_Line]):
    """Detects noise that is not multiplied by the standard deviation, and missing divergences."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        line.factors.add(_wrong_factor(root))
        line.clipped.add(_clipped(root))
        line.alone += _is_noise_alone(root)
        if not line.is_complete or len(line.factors) > 1:
            return
        [factor] = line.factors
        clipped = line.clipped.pop() if len(line.clipped) == 1 else ()
        alone = line.alone == line.looks and self._lines.count == 1
        if factor is not None or alone or clipped:
            self._job.recorder.notes.observe(
                CodeNoise(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    factor=factor or "",
                    clipped=clipped,
                    location=place,
                )
            )


def _wrong_factor(root: Node) -> str | None:
    """Return the wrong factor of the noise; None if it is right, or without a KL divergence."""
    head = _head(root)
    log_variances = _log_variances(head)
    if not log_variances:
        return None
    products = [
        node
        for node in graph.nodes([root])
        if node not in head and operation(node) == "mul" and len(_edges(node)) == 1
    ]
    saved = SavedValues()
    factors = [_edges(node)[0] for node in products if _multiplies_noise(node, saved)]
    if any(operation(node) == "exp" and _edges(node)[0] in log_variances for node, _ in factors):
        return VARIANCE
    if any(edge in log_variances for edge in factors):
        return LOG_VARIANCE
    return None


def _log_variances(head: set[Node]) -> set[Edge]:
    """Return the values that a KL divergence contains together with their exponentials."""
    operands = {edge for node in head for edge in _edges(node)}
    variances = [node for node, _ in operands if operation(node) == "exp"]
    return {edge for node in variances for edge in _edges(node) if edge in operands}


def _clipped(root: Node) -> tuple[str, ...]:
    """Return which parts of the latent code of a KL divergence are the output of a ReLU."""
    head = _head(root)
    log_variances = _log_variances(head)
    if not log_variances:
        return ()
    squares = {node for every in head for node, _ in _edges(every) if _is_square(node)}
    means = {edge for node in squares for edge in _edges(node)}
    parts = ((MEAN, means), (LOG_VARIANCE, log_variances))
    return tuple(name for name, edges in parts if any(map(_is_relu, edges)))


def _is_square(node: Node) -> bool:
    edges = _edges(node)
    if operation(node) == "mul":
        return len(edges) == 2 and edges[0] == edges[1]
    return operation(node) == "pow" and getattr(node, "_saved_exponent", None) == 2


def _is_relu(edge: Edge) -> bool:
    node = graph.through_views(edge[0])
    return node is not None and operation(node) == "relu"


def _is_noise_alone(root: Node) -> bool:
    """Return whether the variance of a latent code affects a loss only through the noise.

    The noise must be scaled by an exponential, and the latent code must only enter further layers.
    """
    saved = SavedValues()
    products = {
        node: log_variance
        for node in graph.nodes([root])
        if operation(node) == "mul" and len(_edges(node)) == 1
        if (log_variance := _log_variance(node)) is not None and _multiplies_noise(node, saved)
    }
    if len(products) != 1:
        return False
    [(product, log_variance)] = products.items()
    through_layers = product not in {node for node, _ in _reached(root, layers=False)}
    return through_layers and log_variance not in _reached(root, without=product)


def _log_variance(product: Node) -> Edge | None:
    """Return the log variance in a product of noise and `exp(0.5 * log_variance)`, or None."""
    edge, exponential = _edges(product)[0], False
    for _ in range(MAX_STEPS):
        node, _ = edge
        name, operands = operation(node), _edges(node)
        if name not in ("exp", "sqrt", "mul", "div") or len(operands) != 1:
            return edge if exponential and not hasattr(node, "variable") else None
        exponential = exponential or name == "exp"
        edge = operands[0]
    return None


def _reached(root: Node, *, without: Node | None = None, layers: bool = True) -> set[Edge]:
    """Return the values on which a loss depends.

    Args:
        root: operation of the loss.
        without: an operation whose operands are not followed.
        layers: whether the operands of layers are followed.
    """
    found: set[Edge] = set()
    waiting, known = [root], {root}
    while waiting:
        for edge in _edges(waiting.pop()):
            found.add(edge)
            node = edge[0]
            is_followed = node is not without and (layers or operation(node) != "linear")
            if is_followed and node not in known:
                known.add(node)
                waiting.append(node)
    return found


def _multiplies_noise(product: Node, saved: SavedValues) -> bool:
    """Return whether a product has a constant factor of its shape, as noise has."""
    shape = graph.output_shape(product)
    return any(tuple(constant.shape) == shape for constant in saved.of(product).values())


def _head(root: Node) -> set[Node]:
    """Return the sums and products with constants between a loss and its terms."""
    found, waiting = {root}, [root]
    while waiting and len(found) < graph.MAX_HEAD_NODES:
        for child, _ in _edges(waiting.pop()):
            name = operation(child)
            single = name != "mul" or len(_edges(child)) == 1
            if child not in found and name in _LINEAR and single:
                found.add(child)
                waiting.append(child)
    return found


def _edges(node: Node) -> list[Edge]:
    """Return the operands that need a gradient."""
    return [(child, number) for child, number in node.next_functions if child is not None]
