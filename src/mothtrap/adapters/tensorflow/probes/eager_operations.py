"""Record the operations of the first eager steps, to find the terms of their losses."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from mothtrap.adapters.tensorflow import internals
from mothtrap.tracing.source import frames

PER_LINE: Final = 2
"""Number of recorded tapes per line. The operations of a line hardly change. Chosen by hand."""
MAX_TAPES: Final = 128
"""Number of tapes after which no tape is recorded. Chosen by hand: a step may have several."""


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """The operation that computed a value, and which of its results the value is."""

    kind: str
    inputs: Sequence[Any]
    index: int


class EagerOperations(threading.local):
    """Operations of a thread's eager steps, from the start of a tape until its gradients are known.

    TensorFlow notifies of each operation, which takes a few microseconds. So only the first tapes
    are recorded. The results are released when all tapes of a step have computed their gradients.
    """

    def __init__(self) -> None:
        self._tapes = self._open = 0
        self._lines: Counter[str | None] = Counter()
        self._made: dict[int, Made] = {}
        self._held: list[Any] = []
        self._listening, self._listens = ExitStack(), False

    def reset(self) -> None:
        """Start over, because an adapter begins to observe."""
        self._clear()
        self._tapes = 0
        self._lines.clear()

    def begin(self) -> None:
        """Start to record, if the tape is one of the first tapes at its line."""
        self._clear()
        self._open = 1
        if self._tapes >= MAX_TAPES:
            return
        self._tapes += 1
        line = frames.user_location()
        self._lines[line] += 1
        if self._lines[line] <= PER_LINE:
            self._listening.enter_context(internals.each_operation(self._add))
            self._listens = True

    def nested(self) -> None:
        """Process a tape that begins while another tape records."""
        self._open += 1

    def stop(self) -> None:
        """Stop recording when the outermost tape ends."""
        self._listening.close()
        self._listens = False
        if self._open <= 0:
            self._clear()

    def differentiated(self, *, again: bool) -> None:
        """Release the results after the last gradients of a step.

        Args:
            again: the tape may compute more gradients.
        """
        self._open -= not again
        if self._open <= 0 and not self._listens:
            self._clear()

    @property
    def are_known(self) -> bool:
        """Return whether operations were recorded."""
        return bool(self._made)

    def of(self, value: Any) -> Made | None:
        """Return the operation that computed a value; None if it was not recorded."""
        return self._made.get(id(value))

    def _clear(self) -> None:
        self._listening.close()
        self._listens = False
        self._made.clear()
        self._held.clear()

    def _add(self, kind: str, inputs: Sequence[Any], outputs: Sequence[Any], *_: object) -> None:
        given = tuple(inputs)
        self._held += [*outputs, *given]  # so that their ids are not reused
        for index, output in enumerate(outputs):
            self._made[id(output)] = Made(kind, given, index)
