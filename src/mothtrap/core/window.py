"""Window of captured steps: the only data that a rule sees.

Shape suffixes: S = captured steps (ascending), T = tensors.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.looks import AdapterReports
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.texts import ends_of, steps_in_words

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
FactT = TypeVar("FactT", bound=Fact)
T = TypeVar("T")

EARLY_VALUES = 10
"""Number of values from the start of the run that a series keeps: a baseline needs several."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """A scalar over steps.

    A series behaves like the array of its values: numpy and plotting libraries accept it, and
    it can be indexed and iterated over.

    Attributes:
        name: name of the scalar, e.g. `loss`.
        of: owner of the scalar, e.g. the `file:line` of a loss or an optimizer.
        mode: mode of the steps.
        steps_S: steps, int64, shape (S,).
        values_S: values, float64, shape (S,); NaN and Inf as captured.
        location: `file:line` that computes the scalar, if known.
        optimizers: optimizers that step on this loss.
        total: number of values since the start of the run, including values that have left the
            window.
        first: first value of the run; NaN if the start of the run is unknown.
        early_S: first values of the run, float64, at most `EARLY_VALUES`; empty if the start of
            the run is unknown.
    """

    name: str
    of: str
    mode: Mode
    steps_S: Ints
    values_S: Floats
    location: str | None = None
    optimizers: tuple[str, ...] = ()
    total: int = 0
    first: float = math.nan
    early_S: Floats = field(default_factory=lambda: np.empty(0))

    def __repr__(self) -> str:
        name = f"{self.name}:{self.of}" if self.of else self.name
        steps, values = steps_in_words(self.steps_S), ends_of(self.values_S)
        return f"<Series {name} of {self.mode}, {steps}{values}>"

    def __len__(self) -> int:
        return len(self.steps_S)

    def __iter__(self) -> Iterator[float]:
        """Yield the values; `zip(series.steps_S, series)` yields them with their steps."""
        return iter(self.values_S.tolist())

    def __getitem__(self, place: Any) -> Any:
        """Return the value at an index, or the values at a slice or an array of indices."""
        return self.values_S[place]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the values as a numpy array, float64, shape (S,)."""
        if copy is False and dtype is not None and np.dtype(dtype) != self.values_S.dtype:
            raise ValueError(f"float64 cannot be converted to {np.dtype(dtype)} without a copy")
        values_S = self.values_S if dtype is None else self.values_S.astype(dtype, copy=False)
        return values_S.copy() if copy else values_S


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matrix:
    """A statistic of the tensors of one kind over steps.

    In evaluation, each row is one forward pass, and its step is the next train step, so steps may
    repeat.

    Attributes:
        kind: kind of the tensors, e.g. `gradient`.
        statistic: id of the statistic, e.g. `l2`.
        tensors: the T tensors, in the order of the columns.
        steps_S: steps, int64, shape (S,).
        values_ST: values, float64, shape (S, T). Statistics are computed over finite values, so a
            NaN where `present_ST` is True means that the tensor had no finite value.
        present_ST: True if a value was captured, bool, shape (S, T); False if it was not
            captured, or where the step's optimizers do not own the tensor.
        skipped_S: True for steps that no optimizer applied, bool, shape (S,).
        mode: mode of the steps.
    """

    kind: str
    statistic: str
    tensors: tuple[TensorInfo, ...]
    steps_S: Ints
    values_ST: Floats
    present_ST: Bools
    skipped_S: Bools
    mode: Mode = Mode.TRAIN

    def __repr__(self) -> str:
        size = f"{len(self.steps_S)}x{len(self.tensors)}"
        steps = steps_in_words(self.steps_S)
        return f"<Matrix {self.statistic} of {self.kind} of {self.mode}, {size}, {steps}>"

    def __len__(self) -> int:
        return len(self.steps_S)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """View of the last steps of a run, from which a rule reads.

    Attributes:
        now_s: Unix time in seconds; rules do not read the clock.
        total_steps: number of train steps since the start of the run.
        steps_S: finished train steps in the window, captured or not, int64, shape (S,).
        skipped_S: True for steps that no optimizer applied, bool, shape (S,).
        series: the captured scalars.
        matrices: the captured statistics of tensors.
        observations: reported facts, oldest first; the first 16 and the latest 256 of each type.
        worker: rank of the worker.
        reference: window of the run to compare with, or None.
        peers: windows of the other workers, which have only observations; empty unless the rule
            `compares`.
        seen_s: Unix time of the newest record, in seconds; 0 before the first.
        trained_s: seconds from the first to the newest record; a pause longer than ten minutes
            counts as ten minutes.
    """

    now_s: float
    total_steps: int
    steps_S: Ints
    skipped_S: Bools
    series: tuple[Series, ...] = ()
    matrices: tuple[Matrix, ...] = ()
    observations: tuple[Fact, ...] = ()
    worker: int = 0
    reference: Window | None = None
    peers: tuple[Window, ...] = ()
    seen_s: float = 0.0
    trained_s: float = 0.0
    _done: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def last_step(self) -> int:
        """Newest train step; -1 before the first."""
        return int(self.steps_S[-1]) if len(self.steps_S) else -1

    def scalars(self, name: str, mode: Mode = Mode.TRAIN) -> tuple[Series, ...]:
        """Return every series of the scalar `name` in `mode`; may be empty."""
        return tuple(s for s in self.series if s.name == name and s.mode == mode)

    def matrix(self, kind: str, statistic: str, mode: Mode = Mode.TRAIN) -> Matrix | None:
        """Return a statistic of the tensors of a kind in a mode; None if it was not captured."""
        wanted = (kind, statistic, mode)
        return next((m for m in self.matrices if (m.kind, m.statistic, m.mode) == wanted), None)

    def seen(self, kind: type[FactT], *, steps: int = 0) -> Iterator[FactT]:
        """Return the observations of one type, oldest first.

        Raises:
            NotEnoughData: the run has fewer than `steps` steps.
        """
        if self.total_steps < steps:
            few = f"needs {steps} steps, saw {self.total_steps}"
            raise NotEnoughData(few if steps > 1 else "no step was recorded")
        by_type = self.once(_by_type)
        types = [own for own in by_type if issubclass(own, kind)]
        if len(types) == 1:
            return iter(by_type[types[0]])
        return (o for o in self.observations if isinstance(o, kind)) if types else iter(())

    def latest(
        self, kind: type[FactT], *, by: str | tuple[str, ...], steps: int = 1
    ) -> list[FactT]:
        """Return the newest observation of one type for each value of a field.

        The list is in the order in which the values appeared. It is empty if nothing of this type
        was observed, which is good news for some rules, and too little data for others.

        Args:
            kind: type of the observations.
            by: name of the field, or names of several fields, e.g. `location`.
            steps: number of steps that the run must have.

        Raises:
            NotEnoughData: the run has fewer than `steps` steps.
        """
        value = operator.attrgetter(*((by,) if isinstance(by, str) else by))
        return list({value(one): one for one in self.seen(kind, steps=steps)}.values())

    @property
    def adapters(self) -> frozenset[str]:
        """Names of the adapters that reported to this window."""
        return self.once(_adapters)

    def of_library(self, library: str) -> Window:
        """Return this window with `library` as its only adapter; findings then give its fixes."""
        found = dataclasses.replace(self)
        found._done.update(self._done)
        found._done[_adapters] = frozenset({library})
        return found

    def once(self, work: Callable[[Window], T]) -> T:
        """Return `work(self)`, computed once per window and shared between rules.

        Args:
            work: a module-level function; its result must not be modified.
        """
        if work not in self._done:
            self._done[work] = work(self)
        done: T = self._done[work]
        return done


def _adapters(window: Window) -> frozenset[str]:
    return frozenset(one.adapter for one in window.once(_by_type).get(AdapterReports, ()))


def _by_type(window: Window) -> dict[type[Any], list[Any]]:
    found: dict[type[Any], list[Any]] = {}
    for observation in window.observations:
        found.setdefault(type(observation), []).append(observation)
    return found
