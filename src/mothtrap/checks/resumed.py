"""State of a training before and after it is resumed from a checkpoint."""

from __future__ import annotations

import msgspec


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """State at the start of an optimizer step, and results of the following steps.

    Attributes:
        weights: Digest of each optimizer parameter, in order.
        moments: digests of the tensors that an optimizer keeps for each parameter, by name, such as
            `exp_avg`; parameters without such tensors are left out.
        rates: Learning rate of each parameter group, in this and the following steps.
        losses: Losses of this and the following steps.
        checkpoint: name of the file that was written before this step; empty if no file was
            written.
    """

    weights: tuple[str, ...]
    moments: dict[str, tuple[str, ...]]
    rates: tuple[tuple[float, ...], ...] = ()
    losses: tuple[float, ...] = ()
    checkpoint: str = ""


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """States of an uninterrupted run and of a run resumed from its checkpoint.

    Attributes:
        before: state in the first step after the checkpoint, without an interruption.
        after: state in the first step of the resumed training.
    """

    before: StepState
    after: StepState
