"""Evaluations: calls between two steps of functions that receive weights without updating them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import jax
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.jax import keys
from mothtrap.adapters.jax.functions import Layout, Traced, array_kind
from mothtrap.adapters.jax.input_scales import OF_SCALES, InputScales, host
from mothtrap.adapters.jax.jitted import Jitted
from mothtrap.adapters.jax.norm_modes import changed_in_evaluation
from mothtrap.adapters.jax.old_weights import OldWeights
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.evaluations import Evaluation, EvaluationMetrics, EvaluationPhase
from mothtrap.core.steps import Mode
from mothtrap.tracing.describe.loop_rows import LoopRows

OF_EVALUATIONS: Final = (
    *(Evaluation, EvaluationMetrics, EvaluationPhase, RowsShared),
    *OF_SCALES,
)
MOST_EVALUATED: Final = 100_000
HIGHER_IS_BETTER: Final = ("acc", "auc", "f1", "precision", "recall", "score", "top")
MODULE: Final = "the model"
SHOWN: Final = 8


@dataclass(slots=True)
class _Phase:
    """The evaluation in progress of one function."""

    layout: Layout
    dropouts: tuple[str, ...]
    norms: tuple[str, ...] = ()
    old_weights: bool = False
    calls: int = 0


class Evaluations:
    """Collects the calls of an evaluation, and reports it when the next step begins.

    Args:
        job: receives the facts.
        wait: waits until arrays are computed.
    """

    def __init__(self, job: Job, wait: Callable[[Any], None]) -> None:
        self._job, self._wait = job, wait
        self._values: dict[str, dict[str, list[Any]]] = {}
        self._phases: dict[str, _Phase] = {}
        self._numbers: dict[str, tuple[int, int]] = {}
        self._rows, self._scales = LoopRows(job, MODULE), InputScales(job, MODULE)
        self._weights: frozenset[int] = frozenset()
        self._named: dict[str, int] = {}
        self._kinds: list[Any] = []
        self._latest: list[Any] = []
        self._dropouts: set[str] = set()
        self._old = OldWeights()
        self._drawn: WeakKeyDictionary[Traced, tuple[str, ...]] = WeakKeyDictionary()

    @property
    def are_open(self) -> bool:
        """Return whether an evaluation is in progress."""
        return bool(self._values or self._phases)

    def draws(self, jitted: Jitted, inputs: Any) -> None:
        """Record the lines of the dropouts in a function that makes steps."""
        self._dropouts.update(_dropouts(jitted, inputs))

    def trained(self, inputs: Any, weights: Sequence[Any], layout: Layout) -> None:
        """Record a call that makes a step.

        Args:
            inputs: its arguments.
            weights: the newest weights.
            layout: layout of the function.
        """
        data = layout.data
        self._weights = frozenset(map(id, weights))
        self._named = dict(zip(layout.weights, map(id, weights), strict=False))
        self._kinds = [array_kind(leaf) for leaf in weights]
        leaves = jax.tree_util.tree_leaves(inputs)
        self._latest = [leaves[index] for index in data if index < len(leaves)]
        self._rows.trained(_host(self._latest))
        self._job.contain_part("scales of inputs", self._scales.trained, inputs, data)

    def called(self, jitted: Jitted, layout: Layout, inputs: Any, results: Sequence[Any]) -> None:
        """Record a call to another function, if it evaluates weights."""
        leaves = jax.tree_util.tree_leaves(inputs)
        taken = self._weights_among(leaves)
        made = [leaf for index, leaf in enumerate(results) if index not in layout.forwarded]
        if not taken or self._returns_weights(made):
            return
        if layout.scalars:
            self._add(layout, results)
        phase = self._phases.get(layout.function)
        if phase is None:
            dropouts = self._dropouts_of(jitted, inputs)
            norms = tuple(changed_in_evaluation(layout, leaves, self._named))
            phase = self._phases[layout.function] = _Phase(layout, dropouts, norms)
            newest = {index for index in taken if id(leaves[index]) in self._weights}
            about = phase, jitted, inputs, newest
            self._job.contain_part("old weights", self._look_for_old, *about)
        phase.calls += 1
        given = [leaf for index, leaf in enumerate(leaves) if index not in taken]
        if any(leaf is one for leaf in given for one in self._latest):
            return  # the batch that was just trained on
        if made and not any(np.ndim(leaf) for leaf in made):
            arrays = _host(given)
            self._rows.evaluated(layout.function, arrays, layout.place)
            about = layout.function, arrays, layout.place
            self._job.contain_part("scales of inputs", self._scales.evaluated, *about)

    def _look_for_old(
        self, phase: _Phase, jitted: Jitted, inputs: Any, weights: Collection[int]
    ) -> None:
        phase.old_weights = self._old.are_used(jitted, phase.layout, inputs, weights)

    def _weights_among(self, leaves: Sequence[Any]) -> set[int]:
        """Return the leaves that are weights: the newest ones, or arrays of the same shapes."""
        known = {index for index, leaf in enumerate(leaves) if id(leaf) in self._weights}
        if known or not self._kinds:
            return known
        return _run(self._kinds, [array_kind(leaf) for leaf in leaves])

    def _returns_weights(self, results: Sequence[Any]) -> bool:
        return bool(_run(self._kinds, [array_kind(leaf) for leaf in results]))

    def _add(self, layout: Layout, results: Sequence[Any]) -> None:
        values = self._values.setdefault(layout.function, {})
        for name, index in layout.scalars.items():
            kept = values.setdefault(name, [])
            if layout.runs_on:
                kept.clear()
            if len(kept) < MOST_EVALUATED:
                kept.append(results[index])

    def _dropouts_of(self, jitted: Jitted, inputs: Any) -> tuple[str, ...]:
        """Return the lines of dropouts that a function has in common with training."""
        if not self._dropouts:
            return ()
        found = self._drawn.get(jitted.traced)
        if found is None:
            found = self._drawn[jitted.traced] = _dropouts(jitted, inputs)
        return tuple(line for line in found if line in self._dropouts)

    def end(self) -> None:
        """Report the evaluation that ended before the next step."""
        values, self._values = self._values, {}
        arrays = [one for seen in values.values() for kept in seen.values() for one in kept]
        self._wait([one for one in arrays if not one.is_deleted()])
        for function, seen in values.items():
            means = {
                name: float(np.mean([np.asarray(one, np.float64) for one in kept]))
                for name, kept in seen.items()
                if not any(one.is_deleted() for one in kept)  # passed on from call to call
            }
            loss = next((name for name in means if "loss" in f"{function} {name}".lower()), None)
            rising = frozenset(n for n in means if any(w in n.lower() for w in HIGHER_IS_BETTER))
            self._job.evaluation(function, means, loss=loss, higher_is_better=rising)
        self._rows.ended()
        self._scales.ended()
        phases, self._phases = self._phases, {}
        for function, phase in phases.items():
            self._report(function, phase)

    def _report(self, function: str, phase: _Phase) -> None:
        step, layout = self._job.now.step, phase.layout
        number, before = self._numbers.get(function, (0, 0))
        self._numbers[function] = number + 1, step
        self._job.fact(
            EvaluationPhase(
                step=step,
                mode=Mode.EVAL,
                module=function,
                module_type=function,
                forwards=phase.calls,
                trains=bool(phase.dropouts or phase.norms),
                number=number,
                steps=step - before,
                labelled=phase.calls if layout.scalars else 0,
                dropouts=phase.dropouts[:SHOWN],
                norms=phase.norms,
                old_weights=phase.old_weights,
                location=phase.dropouts[0] if phase.dropouts else layout.place,
            )
        )


def _dropouts(jitted: Jitted, inputs: Any) -> tuple[str, ...]:
    args, kwargs = inputs
    return tuple(keys.draws_of(jitted.raw.trace(*args, **kwargs).jaxpr).dropouts)


def _run(kinds: Sequence[Any], found: Sequence[Any]) -> set[int]:
    """Return the first consecutive positions with values of some kinds, in order."""
    size = len(kinds)
    for first in range(len(found) - size + 1 if size else 0):
        if found[first] == kinds[0] and list(found[first : first + size]) == list(kinds):
            return set(range(first, first + size))
    return set()


def _host(leaves: Sequence[Any]) -> list[npt.NDArray[Any]]:
    """Return the arrays that can be read without waiting for another device."""
    return [array for array in map(host, leaves) if array is not None]
