"""Rows of a model's output that losses use, if the model gets all rows in every call.

In graph learning, a model is called with all nodes. The training loss uses the outputs of some of
them, and the evaluation uses others. The rows are found by comparing their values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node
from mothtrap.adapters.torch.job.readable import is_plain, plain_array
from mothtrap.core.facts.evaluations import LossRowsShared
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.tracing.describe.row_masks import held_out_rows
from mothtrap.tracing.jobs.identity import OwnRef
from mothtrap.tracing.source import frames

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

LOOKS, WHOLE, MASKED = 8, 3, 2
"""Training losses, and losses of each line that evaluates, that are inspected; training losses with
all rows of the output for knowing that all do so; evaluations in which variables of the script are
read. Chosen by hand."""
MAX_ROWS, MAX_ELEMENTS = 1 << 15, 1 << 22
MAX_SITES = 8


class LossRows:
    """Compares the rows of training losses with those of evaluation losses.

    Args:
        job: the job whose losses are compared.

    Attributes:
        looks: all training forwards so far got the same first argument.
        reads: the outputs of the current call, and the losses of them, are compared.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.looks, self.reads = True, False
        self._given: OwnRef[Any] | None = None
        self._output: torch.Tensor | None = None
        self._purpose = ""
        self._pending: list[tuple[Node, set[int]]] = []
        self._trained: set[int] = set()
        self._place: str | None = None  # of the training loss
        self._losses = self._whole = self._labelled = self._masked = self._size = 0
        self._repeated = False  # training got the same data twice
        self._evaluated: Counter[str] = Counter()

    def called(self, given: Any, has_graph: bool, training: bool) -> None:
        """Handle a model call.

        Args:
            given: its first argument.
            has_graph: autograd is on.
            training: the model is in training mode.
        """
        self._output, self._purpose, self.reads = None, "", False
        trains = has_graph and training
        before = self._given() if self._given is not None else None
        if trains and self._given is None and _can_refer(given):
            self._given = OwnRef(given)
        elif before is None or before is not given:
            self.looks = self.looks and not trains
            return
        self._repeated = self._repeated or (trains and before is given)
        if trains or not training:
            self._purpose = "train" if trains else "evaluate"
        self.reads = self._purpose == "evaluate" or (trains and self._labelled < WHOLE)
        if self._purpose == "evaluate" and (self._trained or self._is_whole):
            self._look_for_masks()

    @property
    def _is_whole(self) -> bool:
        """Return whether training losses use the labels of all rows."""
        return self._labelled >= WHOLE

    def returned(self, outputs: Sequence[torch.Tensor]) -> None:
        """Handle the outputs of the model; the only one may have a row for each row of data."""
        self._output = None
        for one in outputs if len(outputs) == 1 else ():
            small = len(one) <= MAX_ROWS and one.numel() <= MAX_ELEMENTS if one.ndim == 2 else False
            if small and is_plain(one) and one.is_cpu and one.is_floating_point():
                self._output = one.detach()

    def lost(self, args: Sequence[Any], result: torch.Tensor) -> None:
        """Handle a call of a loss function."""
        output = self._output
        prediction = args[0] if args else None
        if output is None or not isinstance(prediction, torch.Tensor) or not is_plain(prediction):
            return
        if self._purpose == "evaluate" and self._trained and self._repeated:
            self._evaluate(prediction, output)
        if self._purpose != "train" or result.grad_fn is None or self._is_whole:
            return
        if self._losses < LOOKS:
            rows = _rows(prediction, output)
            self._place, self._size = frames.user_location(), len(output)
            self._whole = 0 if rows else self._whole + 1
            self._labelled = 0 if rows else self._labelled + _has_all_labels(args, output)
            self.looks = self.looks and (self._whole < WHOLE or self._is_whole)
            if rows:
                del self._pending[:-MAX_SITES]
                self._pending.append((result.grad_fn, rows))

    def loss_began(self, loss: BackwardRoot) -> None:
        """Handle the start of a backward pass: other losses were computed to be shown."""
        pending, self._pending = self._pending, []
        if not pending or loss.root.grad_fn is None:
            return
        head = set(_head(loss.root.grad_fn))
        for node, rows in pending:
            if node in head:
                self._losses += 1
                self._trained |= rows

    def _look_for_masks(self) -> None:
        """Report evaluation rows that training losses use, by the variables that select them."""
        if not self._repeated or self._masked >= MASKED:
            return
        self._masked += 1
        trained = set(range(self._size)) if self._is_whole else self._trained
        for mask in held_out_rows(frames.user_frame(), self._size, plain_array)[:MAX_SITES]:
            self._job.recorder.notes.observe(
                LossRowsShared(
                    step=self._job.grouper.steps_applied,
                    train_rows=len(trained),
                    eval_rows=len(mask.rows),
                    shared=len(mask.rows & trained),
                    mask=mask.name,
                    location=self._place,
                )
            )

    def _evaluate(self, prediction: torch.Tensor, output: torch.Tensor) -> None:
        place = frames.user_location()
        site = str(place)
        if self._evaluated[site] >= LOOKS or len(self._evaluated) > MAX_SITES:
            return
        self._evaluated[site] += 1
        rows = _rows(prediction, output)
        if rows is None:
            return
        self._job.recorder.notes.observe(
            LossRowsShared(
                step=self._job.grouper.steps_applied,
                train_rows=len(self._trained),
                eval_rows=len(rows),
                shared=len(rows & self._trained),
                location=place,
            )
        )


def _head(root: Node) -> Iterator[Node]:
    """Yield the operations near a root that only combine losses, and the losses."""
    waiting, seen = [root], {root}
    while waiting and len(seen) <= graph.MAX_HEAD_NODES:
        node = waiting.pop()
        yield node
        if node is root or graph.is_arithmetic(node):
            for child, _ in node.next_functions:
                if child is not None and child not in seen:
                    seen.add(child)
                    waiting.append(child)


def _can_refer(given: Any) -> bool:
    """Return whether a weak reference is possible; one to an array would forbid to resize it."""
    if isinstance(given, np.ndarray):
        return False
    try:
        OwnRef(given)
    except TypeError:
        return False
    return True


def _has_all_labels(args: Sequence[Any], output: torch.Tensor) -> bool:
    """Return whether a loss has a label for each row of an output."""
    target = args[1] if len(args) > 1 else None
    if args[0].shape != output.shape or not isinstance(target, torch.Tensor):
        return False
    if not (is_plain(target) and target.ndim and len(target) == len(output)):
        return False
    return target.is_floating_point() or not bool((target < 0).any())


def _rows(prediction: torch.Tensor, output: torch.Tensor) -> set[int] | None:
    """Return the rows of an output of which a prediction consists; None if they are unknown.

    Rows that are equal to others are left out.
    """
    if prediction.shape[1:] != output.shape[1:] or not 0 < len(prediction) < len(output):
        return None
    if prediction.dtype != output.dtype or not prediction.dtype.is_floating_point:
        return None
    given, every = (_bytes(one) for one in (prediction, output))
    counts = Counter(every)
    places = {row: place for place, row in enumerate(every)}
    if any(row not in places for row in given):
        return None
    return {places[row] for row in given if counts[row] == 1}


def _bytes(values: torch.Tensor) -> list[bytes]:
    rows = np.ascontiguousarray(as_array(values.detach().float()))
    return [row.tobytes() for row in rows]
