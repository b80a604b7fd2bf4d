"""GRD107: gradients of micro-batches are summed instead of averaged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.trainers import UndividedLoss
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Ints, Window

SCALED = ("div", "mul")
"""Operations above a loss that may average it."""

ADAPTIVE = ("Adam", "Adagrad", "RMSprop", "Rprop", "Lion", "Muon", "Adafactor", "LAMB", "Sophia")
"""Parts of names of optimizers whose steps do not grow with the gradient."""


@dataclass(frozen=True)
class AccumulationNotAveraged(Rule):
    """Gradients of micro-batches are summed instead of averaged.

    What it detects:
        Several `backward()` calls from the same line between two steps, each on a loss that is
        the mean over its micro-batch and is not divided by the number of micro-batches.

    Why it matters:
        `backward()` adds to the gradient. With N micro-batches the gradient, and with SGD the
        step, is N times too large. A learning rate tuned for one batch is too high for the sum,
        and a different number of micro-batches changes the training.

    Fires:
        Warning when `num_steps` steps accumulate two or more micro-batches whose losses are means
        without any scaling. A note with optimizers of the Adam family, whose steps do not grow
        with the gradient. Warning with any optimizer when the Hugging Face Trainer leaves the
        division to the loss and the loss ignores `num_items_in_batch`: the logged losses and the
        clipping threshold are then wrong, too.

    Stays quiet:
        For losses that are divided or multiplied by any factor, sums over elements, losses of
        several terms, and one `backward()` per step.

    What to do:
        - Divide the loss by the number of micro-batches before `backward()`:
          `(loss / accumulation_steps).backward()`.
        - Or divide the gradients before the step, or lower the learning rate by that number.

    Example:
        loss = criterion(model(x), y)
        (loss / accumulation_steps).backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()

    References:
        https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
    """

    code = "GRD107"
    needs = (
        Need(facts=(LossCall,), scalars=("micro_batches",)),
        Need(scalars=("lr",), optional=True),
        Need(facts=(UndividedLoss,), optional=True),
    )
    proof = Proof(title="Micro-batches per step", scalars=("micro_batches",))
    explains = (
        "dead_units",
        "learning_rate_too_high",
        "exploding_gradient",
        "clipping_every_step",
        "loss_diverging",
        "loss_oscillating",
        "update_ratio",
    )

    num_steps: int = threshold(
        10, unit="steps of several micro-batches", source="chosen by hand: not a one-off"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check how the losses of accumulated micro-batches are computed."""
        counted = [s for s in window.scalars("micro_batches") if len(s)]
        if not counted:
            raise NotEnoughData("no backward pass was recorded")
        several = counted[0].values_S >= 2
        if not several.any():
            raise NotApplicable("every step has one backward pass: nothing is accumulated")
        steps_S, count_S = counted[0].steps_S[several], counted[0].values_S[several]
        if len(steps_S) < self.num_steps:
            raise NotEnoughData(
                f"needs {self.num_steps} steps of several micro-batches, saw {len(steps_S)}"
            )
        undivided = list(window.seen(UndividedLoss))
        if undivided:
            return [self._of_trainer(window, undivided[-1], steps_S)]
        calls = _calls(window, steps_S)
        if not calls or not all(_is_plain_mean(call) for call in calls):
            return []
        number = int(np.median(count_S))
        rates = window.scalars("lr")
        adaptive = bool(rates) and all(any(a in rate.of for a in ADAPTIVE) for rate in rates)
        return [
            self.finding(
                window,
                severity=Severity.INFO if adaptive else Severity.WARNING,
                step=int(steps_S[0]),
                last_step=int(steps_S[-1]),
                count=len(steps_S),
                message=(
                    f"the gradients of {number} micro-batches are summed, not averaged: they are "
                    f"{number} times too large"
                ),
                fixes=(
                    f"Divide the loss before `backward()`: `(loss / {number}).backward()`.",
                    *self.fixes(window)[1:],
                ),
                evidence={"micro_batches": number, "steps": len(steps_S), "limit": self.num_steps},
                location=next((call.location for call in calls if call.location), None),
            )
        ]

    def _of_trainer(self, window: Window, seen: UndividedLoss, steps_S: Ints) -> Finding:
        number = seen.micro_batches
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=int(steps_S[0]),
            last_step=int(steps_S[-1]),
            count=len(steps_S),
            message=(
                f"the gradients of {number} micro-batches are summed, not averaged, so loss and "
                f"gradient are {number} times too large: the loss of {seen.trainer} ignores "
                "`num_items_in_batch`, and the Trainer leaves the division to the loss"
            ),
            fixes=(
                "Divide the summed loss by `num_items_in_batch`, or set "
                "`trainer.model_accepts_loss_kwargs = False`, so that the Trainer divides.",
            ),
            evidence={"micro_batches": number, "steps": len(steps_S), "limit": self.num_steps},
            location=seen.location,
        )


def _calls(window: Window, steps_S: Ints) -> list[LossCall]:
    """Return the losses that were read in steps of several micro-batches."""
    known = set(steps_S.tolist())
    calls = [c for c in window.seen(LossCall) if c.mode is Mode.TRAIN and c.above is not None]
    inside = [c for c in calls if c.step in known]
    return inside if len({c.series for c in inside}) == 1 else []


def _is_plain_mean(call: LossCall) -> bool:
    above = call.above or ()
    is_mean = call.reduction == "mean" or (call.reduction in (None, "none") and "mean" in above)
    return is_mean and call.alone is not False and not any(name in SCALED for name in above)
