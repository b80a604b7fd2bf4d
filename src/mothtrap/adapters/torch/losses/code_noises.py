"""The latent noise of a variational autoencoder, compared with the variance in its KL divergence.

The KL divergence from a standard normal distribution contains the log variance `v` and `exp(v)`. So
a sample of the latent code must be the mean plus noise times `exp(v / 2)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
VARIANCE, LOG_VARIANCE = "variance", "log variance"


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the factor of the noise in the inspected ones."""

    factors: set[str | None] = field(default_factory=set)


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
        if line.is_complete and len(line.factors) == 1:
            [factor] = line.factors
            if factor is not None:
                self._job.recorder.notes.observe(
                    CodeNoise(
                        step=self._job.grouper.step,
                        looks=line.looks,
                        factor=factor,
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


def _edges(node: Node) -> list[tuple[Node, int]]:
    """Return the operands that need a gradient, each as a node and the number of its output."""
    return [(child, number) for child, number in node.next_functions if child is not None]
