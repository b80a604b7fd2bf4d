"""The latent noise of a variational autoencoder, compared with the variance in its KL divergence.

The KL divergence from a standard normal distribution contains the log variance `v` and `exp(v)`. So
a sample of the latent code must be the mean plus noise times `exp(v / 2)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.line_looks import Line, LineLooks
from mothtrap.adapters.torch.losses.saved_values import SavedValues
from mothtrap.core.facts.losses import CodeNoise

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

_LINEAR = frozenset({"add", "sub", "rsub", "neg", "sum", "mean", "div", "mul"})
"""Operations between a divergence and the loss."""
MAX_STEPS = 8
"""Maximum number of operations from noise to the logarithm of its scale. Chosen by hand."""
Edge: TypeAlias = tuple[Node, int]
"""An operation, and the number of one of its results."""
VARIANCE, LOG_VARIANCE = "variance", "log variance"


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the factor of the noise in the inspected ones.

    `alone` is the number of those in which nothing but noise depends on the scale of the noise.
    """

    factors: set[str | None] = field(default_factory=set)
    alone: int = 0


class CodeNoiseObserver:
    """Detects latent codes whose noise is not multiplied by the standard deviation."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lines = LineLooks(_Line)

    def loss_began(self, loss: BackwardRoot) -> None:
        """Inspect the graph of a loss if due."""
        line = self._lines.due(loss)
        if line is None or loss.root.grad_fn is None:
            return
        line.looks += 1
        line.factors.add(_factor(loss.root.grad_fn))
        line.alone += _is_noise_alone(loss.root.grad_fn)
        if not line.is_complete or len(line.factors) > 1:
            return
        [factor] = line.factors
        alone = line.alone == line.looks and self._lines.count == 1
        if factor is not None or alone:
            self._job.recorder.notes.observe(
                CodeNoise(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    factor=factor or "",
                    location=loss.place,
                )
            )


def _factor(root: Node) -> str | None:
    """Return the wrong factor of the noise; None if it is right, or without a KL divergence."""
    head = _head(root)
    operands = {edge for node in head for edge in _edges(node)}
    variances = [node for node, _ in operands if operation(node) == "exp"]
    codes = {code for node in variances for code in _edges(node) if code in operands}
    if not codes:
        return None
    products = [
        node
        for node in graph.nodes([root])
        if node not in head and operation(node) == "mul" and len(_edges(node)) == 1
    ]
    saved = SavedValues()
    factors = [_edges(node)[0] for node in products if _is_by_noise(node, saved)]
    if any(operation(node) == "exp" and _edges(node)[0] in codes for node, _ in factors):
        return VARIANCE
    if any(edge in codes for edge in factors):
        return LOG_VARIANCE
    return None


def _is_noise_alone(root: Node) -> bool:
    """Return whether the scale of a code's noise has no other effect on a loss.

    The scale is the exponential of a layer's output, and the code only enters further layers.
    """
    saved = SavedValues()
    products = {
        node: scale
        for node in graph.nodes([root])
        if operation(node) == "mul" and len(_edges(node)) == 1
        if (scale := _log_scale(node)) is not None and _is_by_noise(node, saved)
    }
    if len(products) != 1:
        return False
    [(product, scale)] = products.items()
    through_layers = product not in {node for node, _ in _reached(root, layers=False)}
    return through_layers and scale not in _reached(root, but=product)


def _log_scale(product: Node) -> Edge | None:
    """Return the logarithm of the scale that a product multiplies with noise, before constants."""
    edge, exponential = _edges(product)[0], False
    for _ in range(MAX_STEPS):
        node, _ = edge
        name, operands = operation(node), _edges(node)
        if name not in ("exp", "sqrt", "mul", "div") or len(operands) != 1:
            return edge if exponential and not hasattr(node, "variable") else None
        exponential = exponential or name == "exp"
        edge = operands[0]
    return None


def _reached(root: Node, *, but: Node | None = None, layers: bool = True) -> set[Edge]:
    """Return the values on which a loss depends.

    Args:
        root: operation of the loss.
        but: an operation that is not followed.
        layers: whether layers are followed.
    """
    found: set[Edge] = set()
    waiting, known = [root], {root}
    while waiting:
        for edge in _edges(waiting.pop()):
            found.add(edge)
            node = edge[0]
            if node is not but and node not in known and (layers or operation(node) != "linear"):
                known.add(node)
                waiting.append(node)
    return found


def _is_by_noise(product: Node, saved: SavedValues) -> bool:
    """Return whether the constant in a product has one number for each value, like noise."""
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
    """Return the operands that need a gradient, each as a node and the number of its output."""
    return [(child, number) for child, number in node.next_functions if child is not None]
