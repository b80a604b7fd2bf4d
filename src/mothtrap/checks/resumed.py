"""State of a training before and after it is resumed from a checkpoint."""

from __future__ import annotations

import msgspec


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """State at the start of an optimizer step, and the steps after it.

    Attributes:
        weights: digest of each parameter of the optimizers, in their order.
        moments: digests of the tensors that an optimizer keeps for each parameter, by name, such as
            `exp_avg`; parameters without one are left out.
        rates: learning rate of each group of parameters, in this step and in those after it.
        losses: of this step and those after it.
        checkpoint: name of the file that was written before this step; empty if none was.
    """

    weights: tuple[str, ...]
    moments: dict[str, tuple[str, ...]]
    rates: tuple[tuple[float, ...], ...] = ()
    losses: tuple[float, ...] = ()
    checkpoint: str = ""


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """A training that went on after its checkpoint, and one that was resumed from it.

    Attributes:
        before: state in the first step after the checkpoint, without an interruption.
        after: state in the first step of the resumed training.
    """

    before: StepState
    after: StepState
