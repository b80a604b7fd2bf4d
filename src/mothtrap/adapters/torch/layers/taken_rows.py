"""Outputs of recurrent layers of which one row of the batch is taken, instead of a position."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, Shape, operation, output_shape
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.core.facts.layers import RowTaken

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

LAST = 2**64 - 1
"""The index -1, as autograd stores it."""
RNN = "rnn"
"""Part of the names of operations that run a whole recurrent layer."""
AXES = (0, 1)


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the inspected ones that take the last row of a batch."""

    found: int = 0
    shape: Shape = ()


class TakenRowObserver(LineObserver[_Line]):
    """Finds `out[-1]` of a recurrent layer with `batch_first=True` in the graph of a loss."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        shapes = list(_taken_from(root))
        rows = {
            term.prediction_shape[0] for term in graph.loss_terms(root) if term.prediction_shape
        }
        if len(shapes) == 1 and rows == {shapes[0][1]} and min(shapes[0][:2]) > 1:
            line.found, line.shape = line.found + 1, shapes[0]
        if line.is_complete and line.found:
            self._job.recorder.notes.observe(
                RowTaken(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    found=line.found,
                    shape=line.shape,
                    location=place,
                )
            )


def _taken_from(root: Node) -> list[Shape]:
    """Return the shapes of the outputs (batch, time, units) of which only the last row is used."""
    uses: Counter[Node] = Counter()
    taken: list[Node] = []
    for node in graph.nodes([root]):
        for child, _ in node.next_functions:
            if child is not None and operation(child) == "transpose":
                uses[child] += 1
        if operation(node) == "select" and _takes_last_row(node):
            taken.append(node.next_functions[0][0])
    shapes = [output_shape(node) or () for node in taken if uses[node] == 1]
    return [shape for shape in shapes if len(shape) == 3]


def _takes_last_row(select: Node) -> bool:
    """Return whether a node takes the last row of a batch of sequences from a recurrent layer."""
    swap = select.next_functions[0][0]
    if (select._saved_dim, select._saved_index) != (0, LAST) or swap is None:
        return False
    if operation(swap) != "transpose" or (swap._saved_dim0, swap._saved_dim1) != AXES:
        return False
    made_by = swap.next_functions[0][0]
    if made_by is not None and operation(made_by) == "cat":
        made_by = made_by.next_functions[0][0]
    if made_by is None:
        return False
    return RNN in operation(made_by) or (operation(made_by) == "stack" and made_by._saved_dim == 0)
