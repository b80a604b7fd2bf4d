"""RUN902: the run differs from its reference run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need, any_of
from mothtrap.core.proof import LOSS
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Bools, Floats, Ints, Matrix, Series, Window


@dataclass(frozen=True, slots=True)
class _Divergence:
    """A value that differs: since which step, on which line, and the two first values."""

    step: int
    what: str
    value: float
    wanted: float
    location: str | None
    count: int
    last_step: int


@frozen
class DiffersAcrossRuns(Rule):
    """The run differs from its reference run.

    What it detects:
        The first step, and the tensors, at which losses or gradient norms differ from a
        reference run given by `mothtrap run --reference RUN`.

    Why it matters:
        Two runs of the same program, seed and data are equal until something differs. The first
        difference points to the cause: the order of the data, the initialization, a kernel, a
        library, or an edit that should change nothing.

    Fires:
        Warning when a loss, or the gradient norm of a tensor whose name matches the glob
        `tensors`, differs from the reference at the same step by more than `tolerance` of the
        larger value and by more than `least`.

    Stays quiet:
        Without a reference, and at steps that the reference does not have.

    What to do:
        - Check the usual causes for the first step that differs: data and initialization at step
          0, the optimizer at step 1, dropout and the order of batches later.
        - PyTorch: Seed everything: `random`, `numpy`, `torch`, and the loader's `generator` and
          `worker_init_fn`.
        - Keras: Seed everything: `keras.utils.set_random_seed(0)`.
        - JAX: Seed everything: `random`, `numpy`, and each `jax.random.key`.
        - PyTorch: For bit-for-bit equal kernels, use `torch.use_deterministic_algorithms(True)`.
        - Keras: For bit-for-bit equal kernels, call
          `tf.config.experimental.enable_op_determinism()`.
        - Raise `tolerance` if only rounding differs, as between devices.

    Example:
        mothtrap run --name before train.py
        mothtrap run --reference before train.py     # after a change that should change nothing

    References:
        PyTorch, Reproducibility, https://docs.pytorch.org/docs/stable/notes/randomness.html
    """

    code = "RUN902"
    title = "difference across runs"
    needs = (*any_of(Need(kinds=("gradient",), statistics=("l2",)), Need(scalars=("loss",))),)
    proof = LOSS

    tolerance: float = threshold(
        1e-3, unit="of the larger value", source="chosen by hand: far above float32 rounding"
    )
    least: float = threshold(1e-8, unit="absolute difference", source="chosen by hand")
    tensors: str = threshold("*", unit="glob over tensor names", source="all tensors")

    def check(self, window: Window) -> list[Finding]:
        """Compare losses, then gradient norms, and report the first difference."""
        if window.reference is None:
            raise NotApplicable("no reference run was given")
        found = [*self._losses(window, window.reference), *self._norms(window, window.reference)]
        compared = [divergence for divergence in found if divergence is not None]
        if not found:
            raise NotEnoughData("no step has a loss or tensor that both runs recorded")
        if not compared:
            return []
        onset = min(divergence.step for divergence in compared)
        first = [divergence for divergence in compared if divergence.step == onset]
        told = first[0]
        names = tuple(divergence.what for divergence in first if divergence.what != "loss")
        return [
            self.finding(
                window,
                severity=Severity.WARNING,
                step=onset,
                last_step=max(divergence.last_step for divergence in compared),
                count=max(divergence.count for divergence in compared),
                layers=names,
                message=(
                    f"{_words(told.what)} is {told.value:.6g}, but {told.wanted:.6g} in the "
                    f"reference"
                ),
                evidence={
                    "value": told.value,
                    "reference": told.wanted,
                    "limit": self.tolerance,
                },
                location=told.location,
            )
        ]

    def _losses(self, window: Window, reference: Window) -> Iterator[_Divergence | None]:
        others = reference.scalars("loss")
        for series in window.scalars("loss"):
            same = [other for other in others if other.of == series.of]
            if not same and len(others) == len(window.scalars("loss")) == 1:
                same = list(others)  # the line of the loss has moved
            for other in same[:1]:
                yield from self._series(series, other)

    def _series(self, series: Series, other: Series) -> Iterator[_Divergence | None]:
        steps_S, mine, theirs = np.intersect1d(
            series.steps_S, other.steps_S, assume_unique=False, return_indices=True
        )
        if len(steps_S):
            yield self._first(
                steps_S, series.values_S[mine], other.values_S[theirs], "loss", series.location
            )

    def _norms(self, window: Window, reference: Window) -> Iterator[_Divergence | None]:
        norms, others = window.matrix("gradient", "l2"), reference.matrix("gradient", "l2")
        if norms is None or others is None:
            return
        steps_S, mine, theirs = np.intersect1d(norms.steps_S, others.steps_S, return_indices=True)
        if not len(steps_S):
            return
        places = {tensor.name: place for place, tensor in enumerate(others.tensors)}
        for place, tensor in enumerate(norms.tensors):
            known = places.get(tensor.name)
            if known is None or not fnmatchcase(tensor.name, self.tensors):
                continue
            yield self._first(
                steps_S,
                _shown(norms, mine, place),
                _shown(others, theirs, known),
                tensor.name,
                tensor.location,
            )

    def _first(
        self, steps_S: Ints, value_S: Floats, wanted_S: Floats, what: str, location: str | None
    ) -> _Divergence | None:
        differs = np.flatnonzero(self._differs(value_S, wanted_S))
        if not len(differs):
            return None
        at = int(differs[0])
        return _Divergence(
            step=int(steps_S[at]),
            what=what,
            value=float(value_S[at]),
            wanted=float(wanted_S[at]),
            location=location,
            count=len(differs),
            last_step=int(steps_S[differs[-1]]),
        )

    def _differs(self, value_S: Floats, wanted_S: Floats) -> Bools:
        both_S = np.isfinite(value_S) & np.isfinite(wanted_S)
        larger_S = np.maximum(np.abs(value_S), np.abs(wanted_S))
        limit_S = np.maximum(self.least, self.tolerance * larger_S)
        apart_S: Bools = np.where(
            both_S, np.abs(value_S - wanted_S) > limit_S, np.isnan(value_S) != np.isnan(wanted_S)
        )
        return apart_S


def _shown(matrix: Matrix, rows: Ints, place: int) -> Floats:
    values_S: Floats = matrix.values_ST[rows, place]
    return values_S


def _words(what: str) -> str:
    return "the loss" if what == "loss" else f"the gradient norm of {what}"
