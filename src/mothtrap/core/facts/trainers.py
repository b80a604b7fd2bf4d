"""Facts about trainers: libraries that run the loop in which a framework trains."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class TrainerSettings(Fact, frozen=True, kw_only=True, tag=True):
    """Settings of a trainer that affect the numbers, reported when training begins.

    `trainer` is the name of its class, `model` the name of the model's class. It accumulates the
    gradients of `accumulates` batches before a step, and clips them to `clips`, a limit on their
    `clips_by` (`norm` or `value`); None = no clipping. `precision` and `strategy` are in the
    trainer's terms. Training ends after `epochs` or `steps`; None = no such limit.
    `replaces_nonfinite`: in the loss that it logs, NaN is replaced with a mean of other steps.
    `divides_by_all`: it divides each loss by `accumulates`, even if the rest of an epoch has fewer
    batches. `batches` is the number of batches in an epoch; None = unknown. `leaves_out` is a
    setting, as the script writes it, that leaves out a part of the training batches, and `share`
    the part that remains; None = unknown. `total_steps` are the steps of the whole training, and
    `warm_up` the steps in which the learning rate rises; None = unknown.
    """

    trainer: str
    model: str
    accumulates: int = 1
    clips: float | None = None
    clips_by: str = "norm"
    precision: str = ""
    strategy: str = ""
    processes: int = 1
    epochs: int | None = None
    steps: int | None = None
    replaces_nonfinite: bool = False
    divides_by_all: bool = False
    batches: int | None = None
    leaves_out: str = ""
    share: float | None = None
    total_steps: int | None = None
    warm_up: int | None = None
    location: str | None = None


class TrainingPhase(Fact, frozen=True, kw_only=True, tag=True):
    """A trainer begins a new phase at `step`, which lasts until the next such fact.

    `phase` is `train`, `sanity_check` (a few batches of the validation, to see that it works),
    `validation`, `test` or `predict`; empty if the trainer is done. `epoch` counts from 0; None
    outside of epochs.
    """

    phase: str
    epoch: int | None = None


class LossNotReturned(Fact, frozen=True, kw_only=True, tag=True):
    """A training step returned no loss in each of the first `calls` calls, so the trainer skips it.

    `model` is its class, `location` the line of the function. Observed once.
    """

    model: str
    calls: int
    location: str | None = None


class OptimizerNeverStepped(Fact, frozen=True, kw_only=True, tag=True):
    """An optimizer of a trainer never stepped in `calls` training steps of the model `model`.

    Its parameters, `parameter` and `parameters` - 1 others, have gradients. `location` is the line
    of the training step.
    """

    optimizer: str
    model: str
    calls: int
    parameter: str
    parameters: int
    location: str | None = None


class SummedGradients(Fact, frozen=True, kw_only=True, tag=True):
    """A compiled step adds the gradients of several micro-batches, and averages nothing.

    `micro_batches` gradients of a mean loss are added. `adaptive`: the optimizer keeps averages of
    squared gradients. `location` is the line of the loss.
    """

    micro_batches: int
    adaptive: bool = False
    location: str | None = None


class UndividedLoss(Fact, frozen=True, kw_only=True, tag=True):
    """A trainer leaves averaging over micro-batches to the loss, but the loss does not average.

    The function at `location` receives the number of items in all `micro_batches` of a step, but
    never reads it. The trainer does not divide either.
    """

    trainer: str
    micro_batches: int
    location: str | None = None


class LabelsReplaced(Fact, frozen=True, kw_only=True, tag=True):
    """A collator replaces labels of its rows that the loss should ignore.

    In each of the first `calls` batches, rows had `ignored` labels in all that the loss ignores,
    of which `counted` count in the batch. `location` is the line that trains.
    """

    collator: str
    calls: int
    ignored: int
    counted: int
    location: str | None = None
