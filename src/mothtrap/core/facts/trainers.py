"""Facts about trainers: libraries that run the loop in which a framework trains."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class TrainerSettings(Fact, frozen=True, kw_only=True, tag=True):
    """The settings of a trainer that numbers depend on, said when a training begins.

    `trainer` names its class, `model` that of what it trains. It adds the gradients of
    `accumulates` batches before a step, and clips them to `clips`, which is a limit of their
    `clips_by` (`norm` or `value`); None = it does not. `precision` and `strategy` are in the
    trainer's words. It ends after `epochs` or `steps`; None = no such limit.
    `replaces_nonfinite`: in the loss that it logs, NaN is replaced by a mean of other steps.
    `divides_by_all`: it divides each loss by `accumulates`, also where the rest of an epoch has
    fewer batches.
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
    location: str | None = None


class TrainingPhase(Fact, frozen=True, kw_only=True, tag=True):
    """A trainer begins something else, at `step`: it goes on until the next such fact.

    `phase` is `train`, `sanity_check` (a few batches of the validation, to see that it runs),
    `validation`, `test`, `predict`, or empty: the trainer is done. `epoch` counts from 0; None
    outside of epochs.
    """

    phase: str
    epoch: int | None = None


class LossNotReturned(Fact, frozen=True, kw_only=True, tag=True):
    """A step of training returned no loss in each of the first `calls`, so a trainer skips it.

    `model` is its class, `location` the line of the function. Observed once.
    """

    model: str
    calls: int
    location: str | None = None


class UndividedLoss(Fact, frozen=True, kw_only=True, tag=True):
    """A trainer leaves it to the loss to average over micro-batches, and the loss does not.

    The function at `location` is given the number of items of all `micro_batches` of a step, and
    never reads it. The trainer does not divide either.
    """

    trainer: str
    micro_batches: int
    location: str | None = None
