"""Report or undo steps with a non-finite loss or gradient, according to `on_nonfinite`.

A step is evaluated when its call has returned. It is undone by restoring the previous values of the
variables, so the program of the training is the same under every policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mothtrap.adapters.keras import optimizers
from mothtrap.adapters.keras.loop_state import FIRST
from mothtrap.adapters.keras.snapshots import KerasSnapshotTaker, Made
from mothtrap.adapters.tensorflow.probes.batches import SEVERAL
from mothtrap.adapters.tensorflow.probes.probes import Applied
from mothtrap.core.adapters import Job
from mothtrap.tracing.guard import (
    Fault,
    GuardPolicy,
    bad_gradients,
    bad_loss,
    first_bad,
    large_norm,
)

SCALED: Final = "the norm of gradients of a scaled loss is not known at every step"


class Guard:
    """Evaluates the steps of one job.

    Args:
        job: job of the training.
        taker: takes a snapshot of the first step in each series of bad steps.

    Attributes:
        policy: action for a bad step.
        ending: exception to raise into the training after the hook.
    """

    def __init__(self, job: Job, taker: KerasSnapshotTaker) -> None:
        self._job, self._taker = job, taker
        self.policy = GuardPolicy(job.config, job.say)
        self.ending: BaseException | None = None

    @property
    def needs_state(self) -> bool:
        """Return whether the state before a step is needed."""
        return self.policy.acts or self._taker.active

    @property
    def asks(self) -> bool:
        """Return whether the step in progress is stored regardless of its result."""
        return self._taker.is_due(self._job.now.step)

    def judge(self, made: Made) -> bool:
        """Evaluate a step; return whether it was undone."""
        step, policy = self._job.now.step, self.policy
        fault = self._fault(made)
        why = SEVERAL if made.count > 1 else made.why_no_state
        if not (made.applied or made.losses):
            why = made.why_no_gradients
        is_first = why == FIRST and fault is None  # the next step has a stored state
        if why and not is_first:
            self._job.settings.no_effect("on_nonfinite", why)
        if made.why_no_state and self._taker.active and not is_first:
            self._job.settings.no_effect("snapshots", made.why_no_state)
        if fault is None:
            self._job.contain_part("snapshots", self._taker.sound, made)
            return False
        onset = policy.found(step, made.count)
        if onset:
            self._job.contain_part("snapshots", self._taker.unsound, made, fault.reason)
        if not policy.acts or made.held is None or made.count > 1:
            if made.refused:
                self._job.fact(policy.fact(fault, step, (made.optimizer,), action="refused"))
            elif fault.kind == "norm":  # no rule knows this limit
                optimizers = (made.optimizer,)
                self._job.fact(policy.fact(fault, step, optimizers, action="reported"))
            return False
        made.held.put_back()
        self._job.fact(policy.fact(fault, step, (made.optimizer,)))
        policy.announce(fault, step, onset=onset)
        self.ending = policy.ending(fault, step)
        return True

    def is_unsound(self, step: int) -> bool:
        """Return whether an evaluated step has a fault."""
        return self.policy.unsound_step == step

    def _fault(self, made: Made) -> Fault | None:
        losses = made.losses
        bad = first_bad((loss.value, loss.location) for loss in losses)
        names, count = nonfinite_gradients(made.applied)
        if bad is not None:
            return bad_loss(*bad, names)
        last = losses[-1] if losses else None
        about = (last.value, last.location) if last is not None else (None, None)
        if names:
            return bad_gradients(names, count, *about)
        limit = self.policy.limit
        norm = self._norm(made) if math.isfinite(limit) else 0.0
        return large_norm(norm, limit, *about) if norm > limit else None

    def _norm(self, made: Made) -> float:
        """Return the largest gradient norm of the step's optimizers; 0 if none is known."""
        why = SEVERAL if made.count > 1 else made.why_no_gradients
        if any(each.scaled for each in made.applied):
            why = SCALED
        if why:
            self._job.settings.no_effect("max_gradient_norm", why)
            return 0.0
        return max(map(applied_norm, made.applied), default=0.0)


def nonfinite_gradients(applied: Sequence[Applied]) -> tuple[tuple[str, ...], int]:
    """Return the variables with non-finite gradients, last first, and their number.

    Not with a loss scale, which tries larger factors until gradients overflow.
    """
    names: list[str] = []
    count = 0
    for each in applied:
        if each.scaled:
            continue
        pairs = each.pairs()
        count += len(pairs)
        if each.half_squares() is not None:
            continue
        names += [str(variable.path) for variable, slot in pairs if not is_finite(slot.read())]
    return tuple(reversed(names)), count


def is_finite(array: Any) -> bool:
    """Return whether all values are finite; a finite sum shows this at once."""
    if array.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum(dtype=np.float32 if array.itemsize < 4 else None)):
            return True
    return bool(np.isfinite(array).all())


def applied_norm(applied: Applied) -> float:
    """Return the norm of all gradients of an optimizer after clipping."""
    found = applied.half_squares()
    if found is not None:
        norm_N = np.sqrt(2 * found.astype(np.float64))
    else:
        arrays = [slot.read() for _, slot in applied.pairs()]
        norm_N = np.sqrt([np.square(array, dtype=np.float64).sum() for array in arrays])
    clip = optimizers.clipping(applied.optimizer)
    return clip.clipped(norm_N) if clip is not None else math.hypot(*norm_N)
