"""Narrows the step that is done again to an operation and to rows, in copies of the process.

At the first recorded event of the step the process is copied: the copy is watched, operation
by operation, and ends where the step would be applied. Further copies do the step with some
rows of the batch only. The process itself then does the step unwatched, to the last bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import torch

from mothtrap.adapters.torch.naming import NameBook
from mothtrap.adapters.torch.optimization.optimizers import OptimizerWatch, parameters
from mothtrap.adapters.torch.reproduce.narrowing.operations import Narrowed, Watch
from mothtrap.adapters.torch.reproduce.narrowing.rows import batch_size, chosen
from mothtrap.adapters.torch.reproduce.narrowing.trials import GoOn, Trials
from mothtrap.adapters.torch.reproduce.replaying import as_test
from mothtrap.adapters.torch.reproduce.replaying.outcome import Outcome
from mothtrap.core.replays import ReplayPlan, ReplayResult
from mothtrap.snapshot.rows import Guilty, guilty, has_rows_to_blame, went_wrong

WATCHED_S = 5.0
"""Rows are tried under watch where that took no longer; chosen by hand."""


class Narrowing:
    """Finds what is to blame for a step.

    Args:
        plan: what is asked.
        book: names modules.
        outcome: gets what is found.
        trials: makes copies of the process.
    """

    def __init__(self, plan: ReplayPlan, book: NameBook, outcome: Outcome, trials: Trials) -> None:
        self._plan, self._book, self._outcome, self._trials = plan, book, outcome, trials
        self._begun = self._closely = False
        self._aside = 0
        self._count: int | None = None
        self._rows: Sequence[int] | None = None
        self._repeat = False
        self._watch: Watch | None = None

    def begin(self, value: Callable[[], Any]) -> None:
        """The first recorded event of the step has come; only the first call does anything.

        It returns in the copies as well, each with its own task.

        Args:
            value: makes the batch or the arguments of that event.
        """
        if self._begun:
            return
        self._begun = True
        self._count = batch_size(value())
        if self._plan.watch:
            self._become_watched()
            self._rows = self._plan.rows or None
            self._repeat = self._plan.repeat
        elif self._plan.narrow:
            with suppress(GoOn):
                self._narrow()

    def picked(self, values: list[Any]) -> list[Any]:
        """The values that a call is to get: in a trial some of their rows."""
        if self._rows is not None and self._count is not None:
            chosen(values, self._rows, self._count, repeat=self._repeat)
        return values

    def handed(self, batch: Any) -> None:
        """A loader hands a batch: its parts are named by their places in it."""
        if self._watch is not None:
            self._watch.handed(batch)

    def variables(self, values: Any) -> None:
        """Variables of the user's code are set, by name."""
        if self._watch is not None and isinstance(values, dict):
            self._watch.variables(values)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Around what is no part of the step."""
        self._aside += 1
        self._pause()
        try:
            yield
        finally:
            self._aside -= 1
            self._pause()

    def _pause(self) -> None:
        if self._watch is not None:
            self._watch.pause(self._aside > 0)

    def loss(self, root: torch.Tensor) -> None:
        """A backward begins."""
        if self._watch is not None:
            self._watch.loss(root)

    def completed(
        self,
        result: ReplayResult,
        optimizers: OptimizerWatch,
        error: BaseException | None,
    ) -> ReplayResult:
        """The step is done: put what the watch saw into its result."""
        if self._watch is None:
            return result
        self._watch.__exit__(None, None, None)
        watch = self._watch
        gradients = {
            optimizers.name_of(parameter)[0]: parameter.grad
            for _, optimizer in optimizers.alive()
            for parameter in parameters(optimizer)
        }
        found = watch.raised(error) if error is not None else watch.explain(gradients)
        if found is None:
            return result
        result = self._with(result, found)
        if self._plan.test_file and self._rows is None:
            title = f"Step {self._plan.step}: {found.sentence}."
            written = as_test.write(Path(self._plan.test_file), found, title)
            result = msgspec.structs.replace(result, told=(*result.told, written))
        return result

    def _with(self, result: ReplayResult, found: Narrowed) -> ReplayResult:
        return msgspec.structs.replace(
            result,
            module=found.module,
            operation=found.operation,
            location=found.location,
            told=(found.sentence, *(f"  {facts.words()}" for facts in found.inputs)),
            suspects=rows_of_batch(found.rows, found.rows_of, self._count or 0),
            holder=found.holder or "",
            batch_rows=self._count or 0,
        )

    def _narrow(self) -> None:
        if not self._trials.are_possible():
            self._outcome.uncopied = True
            return
        began_s = time.monotonic()
        watched = self._trials.run(self._become_watched)
        self._closely = time.monotonic() - began_s <= WATCHED_S
        if watched is None or not (watched.nonfinite or watched.exception):
            return
        found = self._with_rows(watched)
        self._outcome.narrowed(found)

    def _with_rows(self, watched: ReplayResult) -> ReplayResult:
        if not has_rows_to_blame(watched):
            return watched
        verdict = self._guilty(watched, watched.batch_rows)
        told = (*watched.told, verdict.sentence)
        return msgspec.structs.replace(watched, told=told, rows=verdict.rows)

    def _guilty(self, watched: ReplayResult, count: int) -> Guilty:
        def trial(rows: Sequence[int], *, repeat: bool) -> bool | None:
            def prepare() -> None:
                self._rows, self._repeat = rows, repeat
                if self._closely:
                    self._become_watched()

            result = self._trials.run(prepare)
            return None if result is None else went_wrong(result, watched, closely=self._closely)

        return guilty(trial, count, watched.suspects)

    def _become_watched(self) -> None:
        self._watch = Watch(self._book, keep=bool(self._plan.test_file))
        self._watch.__enter__()
        self._pause()


def rows_of_batch(places: Sequence[int], length: int, count: int) -> tuple[int, ...]:
    """Rows of the batch for places on the first axis of an array.

    The axis may be that of the batch, or hold several entries for each row, one after the
    other, as where tokens of texts are laid behind one another.
    """
    if not count or length % count:
        return ()
    each = length // count
    return tuple(dict.fromkeys(place // each for place in places))
