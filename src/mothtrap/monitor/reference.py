"""A reference run next to the evaluated run, up to the same step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mothtrap.core.needs import Need
from mothtrap.core.records import StepRecord
from mothtrap.core.window import Window
from mothtrap.reader.run import open_run
from mothtrap.reader.series.windows import WindowBuilder


class Reference:
    """Windows of a stored run, each ending at the current step of the evaluated run.

    Args:
        records: records of one worker, in order; read as they are needed.
        needs: kinds and statistics to keep.
        worker: rank of the worker.
    """

    def __init__(
        self, records: Iterator[StepRecord], needs: Sequence[Need], worker: int = 0
    ) -> None:
        self._records = records
        self._builder = WindowBuilder(needs, worker)
        self._next = next(records, None)

    def window(self, step: int, now_s: float) -> Window:
        """Return the window up to `step`; steps must not decrease.

        Args:
            step: last step of the window.
            now_s: Unix time.
        """
        while self._next is not None and self._next.key.step <= step:
            self._builder.feed(self._next)
            self._next = next(self._records, None)
        return self._builder.window(now_s)


def open_reference(
    argument: str, runs_dir: str | Path, needs: Sequence[Need], worker: int
) -> Reference:
    """Open the reference run with the same worker, or otherwise its lowest rank.

    Raises:
        RunNotFoundError: there is no such run.
    """
    run = open_run(argument, runs_dir)
    rank = worker if worker in run.workers else min(run.workers, default=0)
    return Reference(run.records(rank) if run.workers else iter(()), needs, rank)
