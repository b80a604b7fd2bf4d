"""Run the data loading, or the code around the steps, while models give recorded outputs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.checking import trees
from mothtrap.adapters.torch.checking.answered_models import AnsweredModels, leave_weights
from mothtrap.adapters.torch.checking.idle_player import IdlePlayer
from mothtrap.adapters.torch.checking.recording import Place, Recording
from mothtrap.adapters.torch.replaying.handing import Handed
from mothtrap.checks.part_seen import PartSeen
from mothtrap.core.check_plan import Part
from mothtrap.core.error_texts import in_one_line
from mothtrap.tracing.snapshots.comparison import raised_at


class PartAlone(IdlePlayer):
    """Runs one part of the script in the script's own process.

    `data`: loaders return their own batches. `callbacks`: each loader ends after a few batches, and
    training loaders return the recorded batch, so that the code after an epoch runs early.

    Args:
        part: name of the part.
        recording: recording of the observed steps.
        turns: number of loop iterations for `data`, after which `ended` is called; number of
            batches per loader for `callbacks`.
        ended: called after the last iteration.
        written: returns the names of the files that the script has written.
    """

    def __init__(
        self,
        part: Part,
        recording: Recording,
        turns: int,
        ended: Callable[[], object],
        written: Callable[[], list[str]],
    ) -> None:
        assert recording.last is not None  # an iteration was recorded
        self._part, self._recording, self._limit = part, recording, turns
        self._turn = recording.last
        self._ended, self._written = ended, written
        self._waiting = set(self._turn.optimizers)
        self._seconds: list[float] = []
        self._forms: dict[str, None] = {}
        self._asked: dict[Place, int] = {}
        self._turns = self._epochs = self._evaluations = 0
        self._spent = 0.0
        self._error = ""
        self._location: str | None = None

    def begin(self) -> None:
        """Make the models return their recorded outputs from now on."""
        AnsweredModels(self._turn.calls)

    def seen(self, ended: str = "") -> PartSeen:
        """Return the result of running the part.

        Args:
            ended: reason why it ended before the script did.
        """
        return PartSeen(
            part=self._part,
            turns=self._turns,
            seconds=tuple(self._seconds),
            epochs=self._epochs,
            evaluations=self._evaluations,
            files=tuple(self._written()),
            forms=tuple(self._forms),
            error=self._error,
            location=self._location,
            ended=ended,
        )

    # Player

    def ask_loader(self, number: int, site: str, own: Callable[[], Any], /) -> Handed | None:
        """Return the loader's own batch, or the recorded one."""
        place = ("batch", number, site)
        trains = place in self._recording.batches
        asked = self._asked[place] = self._asked.get(place, 0) + 1
        if self._part == "callbacks" and asked > self._limit:
            self._epoch_ends(place, trains=trains)
            raise StopIteration
        if self._part == "callbacks" and trains:
            recorded = self._turn.batches.get(place) or self._recording.batches[place]
            return Handed(trees.copied(recorded[-1]))
        begin = time.monotonic()
        try:
            batch = own()
        except StopIteration:
            self._epoch_ends(place, trains=trains)
            raise
        if trains:
            self._spent += time.monotonic() - begin
            self._forms.setdefault(_form(batch))
        else:
            self._evaluations += 1
        return Handed(batch)

    def _epoch_ends(self, place: Place, *, trains: bool) -> None:
        self._asked.pop(place, None)
        self._epochs += trains

    def step_begins(self, optimizer: Optimizer, _closure: bool, /) -> None:
        """Keep the weights unchanged."""
        leave_weights(optimizer)

    def step_ended(self, optimizer: Optimizer) -> None:
        """Count an iteration when all of its optimizers have stepped."""
        self._waiting.discard(id(optimizer))
        if self._waiting:
            return
        self._waiting = set(self._turn.optimizers)
        self._turns += 1
        self._seconds.append(self._spent)
        self._spent = 0.0
        if self._part == "data" and self._turns >= self._limit:
            self._ended()

    def raised(self, error: BaseException) -> None:
        """Store the exception that ends the script, with its line."""
        self._error, self._location = in_one_line(error), raised_at(error)


def _form(batch: Any) -> str:
    """Return the types of the arrays of a batch, and the numbers of their axes."""
    found = (f"{name} {_kind(one)}" for name, one in trees.tensors(batch))
    return ", ".join(found) or type(batch).__name__


def _kind(tensor: torch.Tensor) -> str:
    axes = "axis" if tensor.ndim == 1 else "axes"
    return f"{str(tensor.dtype).removeprefix('torch.')} with {tensor.ndim} {axes}"
