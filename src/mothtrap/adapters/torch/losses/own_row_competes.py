"""Contrastive losses in which the similarity of a row with itself is a wrong partner.

Shape suffix: N = rows.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.saved_values import SavedValues
from mothtrap.core.facts.pairs import OwnRowCompetes

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

LEAST_ROWS, MAX_ROWS = 4, 2048
EXACT = 1e-3
"""Difference of two similarities that counts as rounding; chosen by hand."""
PRODUCTS = frozenset({"linear"})
"""Operations that compute similarities; a matrix product is called linear."""
MAX_SCALES = 4
"""Maximum number of factors and views between a product and its exponential. Chosen by hand."""


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the inspected ones in which rows compete with themselves."""

    found: int = 0
    rows: int = 0


class OwnRowObserver(LineObserver[_Line]):
    """Reads the similarities that the graph of a loss saved."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        with torch.no_grad():
            rows = competing_rows(root)
        line.found += rows > 0
        line.rows = rows or line.rows
        if line.is_complete and line.found:
            self._job.recorder.notes.observe(
                OwnRowCompetes(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    found=line.found,
                    rows=line.rows,
                    location=place,
                )
            )


def competing_rows(root: Node) -> int:
    """Return the number of rows that compete with themselves in a loss; 0 if they do not."""
    waiting: deque[tuple[Node, bool]] = deque([(root, False)])
    seen, saved = {root}, SavedValues()
    while waiting and len(seen) <= graph.MAX_HEAD_NODES:
        node, reduced = waiting.popleft()
        similarity_NN = _similarities(node, saved, reduced=reduced)
        if similarity_NN is not None and _has_own_rows(similarity_NN):
            return len(similarity_NN)
        name = operation(node)
        if node is not root and name != "log" and not graph.is_arithmetic(node):
            continue
        for place, (child, _) in enumerate(node.next_functions):
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append((child, name == "sub" and place == 0))
    return 0


def _similarities(node: Node, saved: SavedValues, *, reduced: bool) -> torch.Tensor | None:
    """Return the similarities whose exponentials a node adds up for each row.

    Args:
        node: a node of the graph.
        saved: reads its values.
        reduced: something, perhaps the exponential of the row itself, is subtracted from the sum.
    """
    name = operation(node)
    behind = graph.through_views(node.next_functions[0][0]) if node.next_functions else None
    if behind is None:
        return None
    if name == "nll_loss" and operation(behind) == "log_softmax":
        labels, logs = saved.of(node).get("target"), saved.of(behind).get("result")
        if labels is None or logs is None or labels.ndim != 1 or not _is_square(logs):
            return None
        if bool((labels == torch.arange(len(labels), device=labels.device)).any()):
            return None  # the partner has the same number, in another batch
        return logs - logs.diagonal()[:, None]
    if name == "logsumexp":
        return saved.of(node).get("self")
    adds = name == "sum" and not reduced and len(getattr(node, "_saved_dim", ())) == 1
    if adds and operation(behind) == "exp":
        powers = saved.of(behind).get("result")
        return powers.log() if powers is not None and _is_of_products(behind) else None
    return None


def _is_of_products(node: Node) -> bool:
    """Return whether an exponential is that of scaled products of rows."""
    behind = graph.through_views(node.next_functions[0][0])
    for _ in range(MAX_SCALES):
        if behind is None or operation(behind) not in ("div", "mul", "sub"):
            break
        behind = graph.through_views(behind.next_functions[0][0])
    return behind is not None and operation(behind) in PRODUCTS


def _is_square(matrix: torch.Tensor) -> bool:
    rows = len(matrix) if matrix.ndim == 2 else 0
    return LEAST_ROWS <= rows <= MAX_ROWS and matrix.shape == (rows, rows)


def _has_own_rows(similarity_NN: torch.Tensor) -> bool:
    """Return whether similarities are symmetric, and each row is most similar to itself."""
    if not _is_square(similarity_NN):
        return False
    values = similarity_NN.float()
    own_N1 = values.diagonal()[:, None]
    is_largest = (values <= own_N1 + EXACT).all() & (values < own_N1 - EXACT).any()
    return bool(is_largest) and torch.allclose(values, values.T, rtol=EXACT, atol=EXACT)
