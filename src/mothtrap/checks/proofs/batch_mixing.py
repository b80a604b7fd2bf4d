"""STR707: the output of one row depends on the other rows of the batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mothtrap.checks.check import Check
from mothtrap.checks.step import Array, Forward, relative_change
from mothtrap.checks.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.found import Found
from mothtrap.core.frozen import frozen
from mothtrap.core.thresholds import threshold

FEW_EDGES = 0.1
"""Largest share of the pairs of nodes that are neighbors in a graph with directed edges and without
loops; chosen by hand: tables of numbers have fewer zeros."""
GRAPHS = ("GCNConv", "GATConv", "SAGEConv", "GINConv", "MessagePassing")


@frozen
class BatchMixing(Check):
    """The output of one row depends on the other rows of its batch.

    What it detects:
        A model whose output for the first row changes when the values of the other rows change,
        in evaluation mode.

    Why it matters:
        Samples should be independent. A model that mixes them gives a sample a different prediction
        in each batch, and learns from neighbors that will be missing later.

    Fires:
        Error when the output of the first row changes by more than `least` standard deviations in
        evaluation mode, and by more than `noise_times` the difference between two equal calls. The
        other rows are replaced by copies of the second row, because the output of attention over
        the wrong axis does not change under a permutation. A note when only training mode mixes
        rows, and the model has no batch normalization: a layer that keeps running statistics mixes
        rows on purpose.

    Stays quiet:
        Batch normalization in training mode; batches of graphs, such as a table of nodes with its
        adjacency matrix; models without an output for each row; random models.

    What to do:
        - Check the named layer: a `view` or `reshape` that moves the batch axis, or attention or an
          RNN that expects `batch_first=True`.

    Example:
        nn.MultiheadAttention(64, 4)   # expects (time, batch, feature)

    References:
        http://karpathy.github.io/2019/04/25/recipe/
    """

    code = "STR707"
    title = "rows of a batch are mixed"
    uses = ("step",)
    passed = "the rows of a batch are independent"
    costs = 1
    least: float = threshold(
        1e-4, unit="standard deviations", source="measured: healthy models differ by at most 4e-7"
    )
    noise_times: float = threshold(10.0, unit="times the noise", source="chosen by hand")

    def run(self, subject: Subject) -> Iterable[Found]:
        """Report a model that mixes rows."""
        forward = subject.forward
        if forward.rows < 3:
            raise NotApplicable(f"needs three rows in the batch, has {forward.rows}")
        if not forward.kinds.isdisjoint(GRAPHS) or _relates_rows(forward.inputs, forward.rows):
            raise NotApplicable("the batch is one graph, whose nodes belong together")
        changed = _others_alike(forward.inputs, forward.rows)
        for training in (False, True):
            size = self._mixing(forward, changed, training=training)
            if not size:
                continue
            if training and any("Norm" in kind and "Batch" in kind for kind in forward.kinds):
                return
            where = _first_part(forward, changed, self.least) if not training else ""
            yield Found(
                step=0,
                severity="info" if training else "error",
                message=f"the output of {forward.model} for one row changes by {size:.2g} standard "
                "deviations when the other rows of the batch change"
                + (" (in training mode)" if training else "")
                + (f"; the first layer that mixes them is {where}" if where else ""),
                layers=(where,) if where else (),
                location=forward.location,
                evidence={"change": size, "training": training},
            )
            return

    def _mixing(self, forward: Forward, changed: Mapping[str, Array], *, training: bool) -> float:
        """Return the change of the first row; 0 if it is no more than noise.

        Raises:
            NotApplicable: no output has a row for each row of the batch.
        """
        usual = forward.outputs(training=training)
        again = forward.outputs(training=training)
        other = forward.outputs(changed, training=training)
        found = False
        largest = 0.0
        for before, same, after in zip(usual, again, other, strict=True):
            if before.ndim and len(before) == forward.rows and before.shape == after.shape:
                found = True
                noise = relative_change(before[:1], same[:1])
                change = float(np.max(np.abs(after[0] - before[0]))) / (float(before.std()) or 1.0)
                if change > max(self.least, self.noise_times * noise):
                    largest = max(largest, change)
        if not found:
            raise NotApplicable("no output of the model has one row for each row of the batch")
        return largest


def _relates_rows(inputs: Mapping[str, Array], rows: int) -> bool:
    """Return whether an input matrix defines which rows of another input are neighbors."""
    tables = [one for one in inputs.values() if one.ndim > 1 and len(one) == rows]
    square = [one for one in tables if one.shape == (rows, rows) and (one >= 0).all()]
    return len(tables) > 1 and any(_is_adjacency(one != 0) for one in square)


def _is_adjacency(edges: Array) -> bool:
    """Return whether edges are undirected, include each node itself, or are few."""
    loops = bool(np.diagonal(edges).all()) and edges.mean() < 0.5
    return loops or edges.mean() <= FEW_EDGES or np.array_equal(edges, edges.T)


def _is_causal_mask(array: Array) -> bool:
    """Return whether a square matrix has different constants above and below its diagonal."""
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        return False
    above, below = array[np.triu_indices_from(array, 1)], array[np.tril_indices_from(array, -1)]
    return bool((above == above[:1]).all() and (below == below[:1]).all() and above[0] != below[0])


def _others_alike(inputs: Mapping[str, Array], rows: int) -> dict[str, Array]:
    """Return inputs in which all rows but the first are copies of the second."""
    found = {}
    for path, array in inputs.items():
        if array.ndim > 1 and len(array) == rows and not _is_causal_mask(array):
            changed = array.copy()
            changed[1:] = array[1]
            if np.array_equal(array[1:], changed[1:]) and array.dtype.kind == "f":
                changed[1:] = array[1] + 1.0
            found[path] = changed
    if not found:
        raise NotApplicable("no input of the model has one row for each row of the batch")
    return found


def _first_part(forward: Forward, changed: Mapping[str, Array], least: float) -> str:
    """Return the first layer whose output for the first row changes."""
    usual, other = forward.parts(), forward.parts(changed)
    for (name, before), (_, after) in zip(usual, other, strict=False):
        if before.ndim and len(before) == forward.rows and before.shape == after.shape:
            change = float(np.max(np.abs(after[0] - before[0]), initial=0.0))
            if change > least * (float(before.std()) or 1.0):
                return name
    return ""
