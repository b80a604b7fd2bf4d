"""Functions that TensorFlow traces repeatedly."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Final

from mothtrap.core.adapters import Job
from mothtrap.core.facts.functions import FunctionTraced
from mothtrap.tracing.source import frames

REPORTED_AT: Final = (8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(slots=True)
class _Counts:
    traces: int = 0
    calls: int = 0


class Traces:
    """Counts traces and calls of each function.

    Args:
        job: receives the facts.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._counts: weakref.WeakKeyDictionary[Any, _Counts] = weakref.WeakKeyDictionary()

    def called(self, function: Any, traces: int) -> None:
        """Record a call to a function, with the number of traces it caused."""
        counts = self._counts.setdefault(function, _Counts())
        before, counts.calls = counts.traces, counts.calls + 1
        counts.traces += traces
        if not traces or not any(before < limit <= counts.traces for limit in REPORTED_AT):
            return
        self._job.fact(
            FunctionTraced(
                step=self._job.now.step,
                function=str(getattr(function, "__name__", "")) or "a function",
                traces=counts.traces,
                calls=counts.calls,
                location=frames.user_location(),
            )
        )
