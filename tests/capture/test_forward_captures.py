"""Captures of a forward, by the purpose that it turns out to have."""

from __future__ import annotations

import numpy as np

from mothtrap.capture.arena import MIN_BYTES, Arenas
from mothtrap.capture.forward_captures import ForwardCaptures
from mothtrap.capture.raw import KEEP, StepCopies
from mothtrap.capture.selection import Selection, of_collection
from mothtrap.capture.step_exponents import StepExponents
from mothtrap.capture.step_rows import StepRows
from mothtrap.capture.tensor_registry import Tensors
from mothtrap.core.collections import Collection
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics import numpy as arithmetic
from mothtrap.statistics.distribution import EXPONENTS


class Forward:
    """One forward, in which tensor 0 was reduced, copied and counted."""

    def __init__(self) -> None:
        counted = Collection(tensors=("activations",), statistics=(EXPONENTS,))
        tensors = Tensors(Selection(of_collection("mine", counted)))
        tensors.define(TensorInfo(name="activation:fc", kind="activation", module="fc"))
        self.rows, clock = StepRows(arithmetic), iter(range(100)).__next__
        self.copies = StepCopies(arithmetic, Arenas(4 * MIN_BYTES))
        self.exponents = StepExponents(tensors, clock)
        self.captured = ForwardCaptures(self.rows, self.copies, self.exponents)
        values = np.ones(3)
        self.rows.add(arithmetic, [0], [values], frozenset({"mean"}), waits=True)
        self.copies.add_all([(0, values, KEEP)], arithmetic, waits=True)
        self.exponents.count(arithmetic, [0], [values], waits=True)
        self.captured.is_any = True

    def of_step(self) -> tuple[int, int, int]:
        """Return the numbers of rows, copies and counts in the step."""
        return len(self.rows.take().parts), len(self.copies.take()), len(self.exponents.take())


def test_what_training_has_captured_becomes_the_steps() -> None:
    forward = Forward()
    forward.captured.keep()
    assert not forward.captured.is_any
    assert forward.of_step() == (1, 1, 1)


def test_what_is_taken_is_not_the_steps() -> None:
    forward = Forward()
    rows, raw = forward.captured.take()
    assert [numbers for numbers, _ in rows] == [[0]]
    assert [block.tensor_R.tolist() for block in raw] == [[0], [1]]  # values, counts
    assert not forward.captured.is_any
    assert forward.of_step() == (0, 0, 0)


def test_what_no_one_asks_for_is_forgotten() -> None:
    forward = Forward()
    forward.captured.forget()
    assert not forward.captured.is_any
    assert forward.captured.take() == ([], [])
    assert forward.of_step() == (0, 0, 0)
