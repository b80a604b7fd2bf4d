"""Narrow a replayed step down to an operation and to rows, in copies of the process.

At the first recorded event of the step, the process is copied. The copy is observed, operation by
operation, and ends before the step would be applied. Further copies repeat the step with only some
rows of the batch. Then the process itself replays the step without observation, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import torch

from mothtrap.adapters.torch.job.copies import GoOn
from mothtrap.adapters.torch.job.naming import NameBook
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.adapters.torch.origin import as_test, reproduction
from mothtrap.adapters.torch.origin.operations import (
    Localized,
    OperationObserver,
)
from mothtrap.adapters.torch.origin.reproduction import (
    NotReproducedError,
)
from mothtrap.adapters.torch.origin.row_selection import batch_size, chosen
from mothtrap.adapters.torch.origin.trials import Trials
from mothtrap.core.replays import ReplayPlan, ReplayResult
from mothtrap.core.snapshots import RecordedEvent
from mothtrap.snapshot.microbatches import MicroBatches
from mothtrap.snapshot.row_search import Guilty, guilty, has_rows_to_blame, went_wrong
from mothtrap.tracing.snapshots.outcome import Outcome

WATCHED_S = 5.0
"""Rows are tried under observation if that took no longer than this, in seconds; chosen by hand."""


class FaultLocalization:
    """Finds the cause of a failed step.

    Args:
        plan: settings of the replay.
        book: names of modules.
        outcome: receives the results.
        trials: creates copies of the process.
        micro_batches: micro-batches of the step.
    """

    def __init__(
        self,
        plan: ReplayPlan,
        book: NameBook,
        outcome: Outcome,
        trials: Trials,
        micro_batches: MicroBatches,
    ) -> None:
        self._plan, self._book, self._outcome, self._trials = plan, book, outcome, trials
        self._micro_batches = micro_batches
        self._begun = self._closely = False
        self._aside = 0
        self._counts: dict[int, int | None] = {}
        self._entered: list[tuple[int, int]] = []
        self._rows: Sequence[int] | None = None
        self._rows_of = plan.micro_batch or 0
        self._repeat = False
        self._watch: OperationObserver | None = None

    def came(self, event: RecordedEvent, value: Callable[[], Any]) -> None:
        """Handle a recorded event of the step.

        At the first event, copies of the process are created; the method returns in these as well,
        each with its own task.

        Args:
            event: the event.
            value: creates the batch or the arguments of that event.
        """
        place = self._micro_batches.of(event)
        if place is not None and self._counts.get(place) is None:
            self._counts[place] = batch_size(value())
        if not self._begun:
            self._begun = True
            self._begin()
        if self._watch is not None and place is not None:
            self._entered.append((self._watch.seen, place))

    def _begin(self) -> None:
        if self._plan.watch:
            self._become_watched()
            self._rows = self._plan.rows or None
            self._repeat = self._plan.repeat
        elif self._plan.narrow:
            with suppress(GoOn):
                self._narrow()

    def picked(self, event: RecordedEvent, values: list[Any]) -> list[Any]:
        """Return the arguments of a call: in a trial, some rows of one micro-batch."""
        count = self._counts.get(self._rows_of)
        if self._rows is not None and count and self._micro_batches.of(event) == self._rows_of:
            chosen(values, self._rows, count, repeat=self._repeat)
        return values

    def handed(self, batch: Any) -> None:
        """Handle a batch from a loader, naming its parts by position."""
        if self._watch is not None:
            self._watch.handed(batch)

    def variables(self, values: Any) -> None:
        """Record variables of the user's code by name."""
        if self._watch is not None and isinstance(values, dict):
            self._watch.variables(values)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Exclude code inside a block that is not part of the step."""
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
        """Handle the start of a backward pass."""
        if self._watch is not None:
            self._watch.loss(root)

    def completed(
        self,
        result: ReplayResult,
        optimizers: OptimizerObserver,
        error: BaseException | None,
    ) -> ReplayResult:
        """Add the observations to the result of the completed step."""
        if self._watch is None:
            return result
        watch = self._watch
        # not inside the backward pass of a closure, where observation is paused, and the
        if watch.on_top:
            watch.__exit__(None, None, None)  # process ends with it in force
        gradients = {
            optimizers.name_of(parameter)[0]: parameter.grad
            for _, optimizer in optimizers.alive()
            for parameter in parameters(optimizer)
        }
        found = watch.raised(error) if error is not None else watch.explain(gradients)
        if found is not None:
            result = self._with(result, found)
        elif error is not None:
            found = watch.raised_in_module(error)
        if self._plan.test_file and self._rows is None:
            result = self._tested(result, found, self._plan.test_file)
        if self._plan.repro_file and self._rows is None:
            result = self._reproduced(result, found, self._plan.repro_file)
        return result

    def _reproduced(self, result: ReplayResult, found: Localized | None, file: str) -> ReplayResult:
        """Write a script that fails like the step, or report why this is impossible."""
        try:
            if found is None:
                raise NotReproducedError("the failure did not come from a PyTorch operation")
            written = reproduction.write(Path(file), found, self._plan.step)
        except NotReproducedError as err:
            return msgspec.structs.replace(result, unreproduced=str(err))
        return msgspec.structs.replace(result, told=(*result.told, written))

    def _tested(self, result: ReplayResult, found: Localized | None, file: str) -> ReplayResult:
        """Write a test of the origin, or report why this is impossible."""
        if found is None:
            why = as_test.NO_OPERATION
            if result.exception:
                why = "the exception did not come from a PyTorch operation or from a module"
            return msgspec.structs.replace(result, untested=why)
        title = f"Step {self._plan.step}: {found.sentence}."
        try:
            written = as_test.write(Path(file), found, title)
        except as_test.NotWrittenError as err:
            return msgspec.structs.replace(result, untested=str(err))
        return msgspec.structs.replace(result, told=(*result.told, written))

    def _with(self, result: ReplayResult, found: Localized) -> ReplayResult:
        entered = [place for begin, place in self._entered if begin < found.number]
        place = entered[-1] if entered else 0
        count = self._counts.get(place) or 0
        return msgspec.structs.replace(
            result,
            module=found.module,
            operation=found.operation,
            location=found.location,
            told=(found.sentence, *(f"  {facts.words()}" for facts in found.inputs)),
            suspects=rows_of_batch(found.rows, found.rows_of, count),
            holder=found.holder or "",
            batch_rows=count,
            micro_batch=place if self._micro_batches.count > 1 else None,
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
        told = (*watched.told, verdict.sentence_of(watched.micro_batch))
        return msgspec.structs.replace(watched, told=told, rows=verdict.rows)

    def _guilty(self, watched: ReplayResult, count: int) -> Guilty:
        def trial(rows: Sequence[int], *, repeat: bool) -> bool | None:
            def prepare() -> None:
                self._rows, self._repeat = rows, repeat
                self._rows_of = watched.micro_batch or 0
                if self._closely:
                    self._become_watched()

            result = self._trials.run(prepare)
            return None if result is None else went_wrong(result, watched, closely=self._closely)

        return guilty(trial, count, watched.suspects)

    def _become_watched(self) -> None:
        self._watch = OperationObserver(self._book, keep=bool(self._plan.test_file))
        self._watch.__enter__()
        self._pause()


def rows_of_batch(places: Sequence[int], length: int, count: int) -> tuple[int, ...]:
    """Return the rows of the batch for positions on an array's first axis.

    The axis may be the batch axis, or contain several consecutive entries for each row, as for
    concatenated tokens.
    """
    if not count or length % count:
        return ()
    each = length // count
    return tuple(dict.fromkeys(place // each for place in places))
