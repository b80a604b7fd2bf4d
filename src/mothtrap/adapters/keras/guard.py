"""Steps whose loss or gradients are not finite: told, or taken back, as `on_nonfinite` asks.

A step is judged when its call has returned. What it did to the variables is taken back by giving
them the values from before: the program of the training is the same under every policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mothtrap.adapters.keras.taker import KerasSnapshotTaker, Made
from mothtrap.adapters.tensorflow.batches import SEVERAL
from mothtrap.adapters.tensorflow.looks import Applied
from mothtrap.core.adapters import Losses
from mothtrap.core.errors import NonFiniteStepError
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.core.runs import STOPPED
from mothtrap.tracing.adapter_job import AdapterJob

ACTIONS = {"skip": "skipped", "stop": "stopped", "raise": "raised"}
SAID = 3
NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a step is not sound; fields as in the fact `StepGuarded`."""

    kind: str
    reason: str
    loss: float | None
    parameters: tuple[str, ...] = ()
    concerned: int = 0
    location: str | None = None


class Guard:
    """Judges the steps of one job.

    Args:
        job: of the training.
        taker: keeps the first step of each stretch that is not sound.

    Attributes:
        acts: the policy is another than to report.
        ending: is to be raised into the training when the hook is over.
    """

    def __init__(self, job: AdapterJob, taker: KerasSnapshotTaker) -> None:
        self._job, self._taker = job, taker
        self._policy = job.config.on_nonfinite
        self.acts = self._policy != "report"
        self.ending: BaseException | None = None
        self._unsound, self._said = -2, 0

    @property
    def needs_state(self) -> bool:
        """Return whether the state before a step has to be known."""
        return self.acts or self._taker.active

    @property
    def asks(self) -> bool:
        """Return whether the step in progress is kept whatever it comes to."""
        return self._taker.is_due(self._job.grouper.step)

    def judge(self, made: Made) -> bool:
        """Judge a step that was made; return whether it was taken back."""
        step = self._job.grouper.step
        fault = _fault(made.applied, made.losses)
        if fault is None:
            self._job.contain_part("snapshots", self._taker.sound, made)
            return False
        onset = self._unsound < step - made.count
        self._unsound = step
        if onset:
            self._job.contain_part("snapshots", self._taker.unsound, made, fault.reason)
        if not self.acts:
            return False
        if made.held is None or made.count > 1:
            self._refuse(made.why_no_state or SEVERAL)
            return False
        made.held.put_back()
        self._act(step, fault, made, onset=onset)
        return True

    def is_unsound(self, step: int) -> bool:
        """Return whether a step that was judged has a fault."""
        return self._unsound == step

    def _act(self, step: int, fault: Fault, made: Made, *, onset: bool) -> None:
        self._job.fact(
            StepGuarded(
                step=step,
                action=ACTIONS[self._policy],  # type: ignore[arg-type]
                fault=fault.kind,  # type: ignore[arg-type]
                reason=fault.reason,
                optimizers=(made.optimizer,),
                parameters=fault.parameters,
                concerned=fault.concerned,
                location=fault.location,
            )
        )
        if self._policy == "stop":
            self._say(
                f"stopped at step {step} (on_nonfinite = stop): {fault.reason}; nothing of this "
                "step was applied"
            )
            self.ending = SystemExit(STOPPED)
        elif self._policy == "raise":
            self.ending = NonFiniteStepError(
                f"step {step} was not applied: {fault.reason}; the policy is on_nonfinite = raise",
                step=step,
                loss=fault.loss,
                parameters=fault.parameters,
                location=fault.location,
            )
        elif onset and self._said < SAID:
            self._said += 1
            last = "; further ones are counted in the verdict" if self._said == SAID else ""
            self._say(f"step {step} was not applied (on_nonfinite = skip): {fault.reason}{last}")

    def _refuse(self, why: str) -> None:
        if not self._said:
            self._said = 1
            self._say(f"on_nonfinite = {self._policy} is not possible here: {why}")
        self._job.blind(f"on_nonfinite = {self._policy}", why)

    def _say(self, line: str) -> None:
        self._job.recorder.containment.say(f"mothtrap: {line}")


def _fault(applied: Sequence[Applied], losses: Sequence[Losses]) -> Fault | None:
    bad_loss = next((loss for loss in losses if not math.isfinite(loss.value)), None)
    names, count = nonfinite_gradients(applied)
    if bad_loss is not None:
        word = "NaN" if math.isnan(bad_loss.value) else "infinite"
        where = f" ({bad_loss.location})" if bad_loss.location else ""
        return Fault(
            kind="loss",
            reason=f"the loss is {word}{where}",
            loss=bad_loss.value,
            parameters=names[:NAMED],
            concerned=len(names),
            location=bad_loss.location,
        )
    if not names:
        return None
    return Fault(
        kind="gradient",
        reason=f"{len(names)} of {count} gradients hold NaN or infinite values; nearest to the "
        f"loss is that of {names[0]}",
        loss=losses[-1].value if losses else None,
        parameters=names[:NAMED],
        concerned=len(names),
        location=losses[-1].location if losses else None,
    )


def nonfinite_gradients(applied: Sequence[Applied]) -> tuple[tuple[str, ...], int]:
    """Return the variables whose gradients are not finite, the last first, and how many there are.

    Not under a loss scale, which tries larger factors until gradients overflow.
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
    """Return whether all values are finite; a sum that is says so at once."""
    if array.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum(dtype=np.float32 if array.itemsize < 4 else None)):
            return True
    return bool(np.isfinite(array).all())
