"""The last captured steps of what a rule needs: the only thing that a rule sees.

Shape suffixes: S = captured steps (ascending), T = tensors.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mothtrap.core.fact import Fact
from mothtrap.core.facts.looks import AdapterReports
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
FactT = TypeVar("FactT", bound=Fact)
T = TypeVar("T")

EARLY_VALUES = 10
"""Values from the start of the run that a series shows for good: a level needs several."""
SHOWN = 3
"""Values at either end of a series that are printed of it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """One scalar over steps: `values_S` may hold NaN and Inf, as they were captured.

    It is taken for the array of its values by numpy, by plots, by a loop and by an index.

    `total` counts the values since the start of the run, also those that have left
    the window. `first` is the first value of the run, `early_S` are its first values, at
    most `EARLY_VALUES`; NaN and empty where the beginning is not known.
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
        return (
            f"<Series {name} of {self.mode}, {_steps_shown(self.steps_S)}{_shown(self.values_S)}>"
        )

    def __len__(self) -> int:
        return len(self.steps_S)

    def __iter__(self) -> Iterator[float]:
        """Yield the values; `zip(series.steps_S, series)` goes with their steps."""
        return iter(self.values_S.tolist())

    def __getitem__(self, place: Any) -> Any:
        """Return a value by its place, or several by a slice or an array of places."""
        return self.values_S[place]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the values, for numpy and whatever takes an array."""
        if copy is False and dtype is not None and np.dtype(dtype) != self.values_S.dtype:
            raise ValueError(f"float64 cannot be converted to {np.dtype(dtype)} without a copy")
        values_S = self.values_S if dtype is None else self.values_S.astype(dtype, copy=False)
        return values_S.copy() if copy else values_S


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matrix:
    """One statistic of the tensors of one kind over steps.

    `values_ST` is NaN where `present_ST` is False (no row: not captured, or not owned
    by the step's optimizers). Of an evaluation a row is one forward; its step is the train
    step that it came before, so steps may repeat. Statistics are of the finite values of
    a tensor, so a present value that is NaN means that the tensor had no finite value.
    `skipped_S`: steps that no optimizer applied.
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
        steps = _steps_shown(self.steps_S)
        return f"<Matrix {self.statistic} of {self.kind} of {self.mode}, {size}, {steps}>"

    def __len__(self) -> int:
        return len(self.steps_S)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """View of a run for a rule.

    `steps_S` are all train steps closed so far that are still in the window, captured
    or not, `skipped_S` those that no optimizer applied. `total_steps` counts all train
    steps since the start. `now_s` is Unix time: rules have no clock; `seen_s` is that of the
    newest record, 0 before the first; `trained_s` is the time from the first record to it,
    in which a longer pause counts as ten minutes. `reference` is another run, or None.
    `observations` keeps the first 16 and the latest 256 of each type, oldest first. `peers` are
    windows of the other workers, with their observations alone; empty for rules on one worker.
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
        """The newest train step, -1 before the first."""
        return int(self.steps_S[-1]) if len(self.steps_S) else -1

    def scalars(self, name: str, mode: Mode = Mode.TRAIN) -> tuple[Series, ...]:
        """Every series of the scalar `name` in `mode`."""
        return tuple(s for s in self.series if s.name == name and s.mode == mode)

    def matrix(self, kind: str, statistic: str, mode: Mode = Mode.TRAIN) -> Matrix | None:
        """The statistic of a kind in a mode, or None when nothing of it was captured."""
        wanted = (kind, statistic, mode)
        return next((m for m in self.matrices if (m.kind, m.statistic, m.mode) == wanted), None)

    def seen(self, kind: type[FactT]) -> Iterator[FactT]:
        """The observations of one type, oldest first."""
        by_type = self.once(_by_type)
        types = [own for own in by_type if issubclass(own, kind)]
        if len(types) == 1:
            return iter(by_type[types[0]])
        return (o for o in self.observations if isinstance(o, kind)) if types else iter(())

    @property
    def adapters(self) -> frozenset[str]:
        """The adapters that have said in this window what can come from them."""
        return self.once(_adapters)

    def of_library(self, library: str) -> Window:
        """Return this window as if `library` were its only adapter: findings give its fixes."""
        found = dataclasses.replace(self)
        found._done.update(self._done)
        found._done[_adapters] = frozenset({library})
        return found

    def once(self, work: Callable[[Window], T]) -> T:
        """Return what `work` makes of this window; of rules that share it only the first waits.

        Args:
            work: a function at the top of a module; its result is never changed.
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


def _steps_shown(steps_S: Ints) -> str:
    if not len(steps_S):
        return "no steps"
    count = "1 step" if len(steps_S) == 1 else f"{len(steps_S)} steps"
    return f"{count} from {steps_S[0]} to {steps_S[-1]}"


def _shown(values_S: Floats) -> str:
    """The first and the last values, behind a colon."""
    shown = [f"{value:.4g}" for value in values_S[:SHOWN].tolist()]
    if len(values_S) > 2 * SHOWN:
        shown.append("...")
    shown += [f"{value:.4g}" for value in values_S[max(SHOWN, len(values_S) - SHOWN) :].tolist()]
    return ": " + ", ".join(shown) if shown else ""
