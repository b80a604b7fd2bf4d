"""`mothtrap.log` and `log_tensor` inside compiled functions: values come from the shadow.

Nothing is added to the script's own executable. While the shadow is traced, a log becomes a
callback, which JAX carries through loops, branches, `vmap` and derivatives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.functions import Book
from mothtrap.core.adapters import Job

Take = Callable[[Any], None]
MOST_VALUES: Final = 10_000
"""Maximum number of stored values of one name in one step, for long loops."""


class TracedLogs:
    """Records logged values that are not known until the program runs.

    Args:
        job: receives the values.
        book: record of the functions being traced.

    Attributes:
        close: ends the recording.
    """

    def __init__(self, job: Job, book: Book) -> None:
        self._job, self._book = job, book
        self._came: dict[str, tuple[Take, list[npt.NDArray[Any]]]] = {}
        self.close = job.defer(self.defers)

    def defers(self, name: str, value: Any, take: Take) -> bool:
        """Return whether a value belongs to a traced function and will be known later."""
        if not isinstance(value, jax.core.Tracer):
            return False
        self._book.logs = True
        if self._book.collector is not None:
            internals.call_back(functools.partial(self._add, name, take), value)
        return True

    def _add(self, name: str, take: Take, value: Any) -> None:
        _, values = self._came.setdefault(name, (take, []))
        if len(values) < MOST_VALUES:
            values.append(np.array(value))

    def hand_on(self) -> None:
        """Pass on the values of a call; several values with the same name are stacked."""
        came, self._came = self._came, {}
        for take, values in came.values():
            take(values[0] if len(values) == 1 else np.stack(values))
