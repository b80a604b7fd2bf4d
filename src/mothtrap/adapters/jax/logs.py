"""`mothtrap.log` and `log_tensor` inside compiled functions: values come from the shadow.

In the script's own executable nothing is added. While the shadow is traced, a log becomes a
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
"""Values of one name in one step that are kept; those of long loops."""


class TracedLogs:
    """Takes what is logged with values that are not known yet.

    Args:
        job: takes the values.
        book: of the functions that are being traced.

    Attributes:
        close: ends that.
    """

    def __init__(self, job: Job, book: Book) -> None:
        self._job, self._book = job, book
        self._came: dict[str, tuple[Take, list[npt.NDArray[Any]]]] = {}
        self.close = job.defer(self.defers)

    def defers(self, name: str, value: Any, take: Take) -> bool:
        """Return whether a value is one of a function that is being traced, and comes later."""
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
        """Hand on what came in a call; several values of a name are stacked."""
        came, self._came = self._came, {}
        for take, values in came.values():
            take(values[0] if len(values) == 1 else np.stack(values))
