"""Scales of training batches and of evaluation inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.jax.functions import name_of
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import InputDistribution
from mothtrap.core.steps import Mode
from mothtrap.tracing.describe.input_scales import input_scale

OF_SCALES: Final = (InputDistribution,)
CELLS: Final = 1 << 18
"""Maximum number of inspected cells of an array: less than 1 ms."""
FIRST_BATCHES, EVERY, BATCHES = 4, 50, 64
"""Number of first training batches whose scale is recorded, number of steps between later ones, and
maximum number of batches. Chosen by hand."""
EVALUATIONS, CALLS = 3, 4
"""Maximum number of evaluations of a function, and of calls in each, whose scale is recorded."""


class InputScales:
    """Reports the mean and standard deviation of each array in a batch, by the shape of its rows.

    Args:
        job: receives the facts.
        module: name of the model.
    """

    def __init__(self, job: Job, module: str) -> None:
        self._job, self._module = job, module
        self._names: dict[tuple[int, ...], str] = {}
        self._calls = self._reported = 0
        self._evaluations: Counter[str] = Counter()
        self._open: Counter[str] = Counter()

    def trained(self, inputs: Any, data: Collection[int]) -> None:
        """Record the batch of a step.

        Args:
            inputs: arguments of the step.
            data: positions of the batch among the leaves of the arguments.
        """
        self._calls += 1
        due = self._calls <= FIRST_BATCHES or self._calls % EVERY == 0
        if not due or self._reported >= BATCHES:
            return
        self._reported += 1
        paths = jax.tree_util.tree_flatten_with_path(inputs)[0]
        named = [(_name(paths[n][0]), host(paths[n][1])) for n in data if n < len(paths)]
        for name, array in _of_distinct_shapes(named):
            self._names.setdefault(array.shape[1:], name)
            self._report(array, Mode.TRAIN, None)

    def evaluated(
        self, function: str, arrays: Iterable[npt.NDArray[Any]], location: str | None
    ) -> None:
        """Record the inputs of a call to a function that evaluates."""
        if self._evaluations[function] >= EVALUATIONS or self._open[function] >= CALLS:
            return
        self._open[function] += 1
        known = [one for one in arrays if one.shape[1:] in self._names]
        for _, array in _of_distinct_shapes([("", one) for one in known]):
            self._report(array, Mode.EVAL, location)

    def ended(self) -> None:
        """Handle the end of the evaluations in progress."""
        self._evaluations.update(self._open.keys())
        self._open.clear()

    def _report(self, array: npt.NDArray[Any], mode: Mode, location: str | None) -> None:
        found = input_scale(
            array,
            module=self._module,
            argument=self._names[array.shape[1:]],
            mode=mode,
            step=self._job.now.step,
            location=location,
            cells=CELLS,
        )
        if found is not None:
            self._job.fact(found)


def host(leaf: Any) -> npt.NDArray[Any] | None:
    """Return a leaf as a NumPy array if no transfer from another device is needed, else None."""
    if isinstance(leaf, jax.Array):
        if leaf.is_deleted() or not leaf.is_fully_addressable:
            return None
        if any(device.platform != "cpu" for device in leaf.devices()):
            return None
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return None
        leaf = np.asarray(leaf)
    return leaf if isinstance(leaf, np.ndarray) else None


def _of_distinct_shapes(
    named: Iterable[tuple[str, npt.NDArray[Any] | None]],
) -> list[tuple[str, npt.NDArray[Any]]]:
    """Return the float arrays whose rows have a different shape than the rows of all others."""
    found = [
        (name, array)
        for name, array in named
        if array is not None and array.ndim > 1 and len(array) > 1 and array.dtype.kind == "f"
    ]
    shapes = Counter(array.shape[1:] for _, array in found)
    return [(name, array) for name, array in found if shapes[array.shape[1:]] == 1]


def _name(path: Any) -> str:
    """Return the name of an argument, without its position; `x` if it has no other name."""
    words = [word for word in name_of(path).split(".") if not word.isdigit()]
    return ".".join(words) or "x"
