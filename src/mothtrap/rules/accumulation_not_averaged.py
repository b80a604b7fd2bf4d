"""GRD107: gradients of micro-batches are summed instead of averaged."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.trainers import SummedGradients, TrainerSettings, UndividedLoss
from mothtrap.core.findings import EvidenceValue, Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Ints, Series, Window

SCALED = ("div", "mul")
"""Operations above a loss that may average it."""

ADAPTIVE = ("Adam", "Adagrad", "RMSprop", "Rprop", "Lion", "Muon", "Adafactor", "LAMB", "Sophia")
"""Parts of names of optimizers whose steps do not grow with the gradient."""


@frozen
class AccumulationNotAveraged(Rule):
    """Gradients of micro-batches are summed instead of averaged.

    What it detects:
        Several `backward()` calls from the same line between two steps, each on a loss that is
        not divided by the number of micro-batches. The loss, or one of its terms, is the mean over
        its micro-batch, or a sum over its rows. JAX: gradients of a mean loss that a compiled step
        adds up, in a loop or one after another, without a division by their number.

    Why it matters:
        `backward()` adds to the gradient. With N micro-batches the gradient, and with SGD the
        step, is N times too large. A learning rate tuned for one batch is too high for the sum,
        and a different number of micro-batches changes the training.

    Fires:
        Warning when `num_steps` steps accumulate two or more micro-batches whose losses are
        unscaled means. A note with optimizers of the Adam family, whose steps do not grow
        with the gradient. Warning with any optimizer when the Hugging Face Trainer leaves the
        division to the loss and the loss ignores `num_items_in_batch`: the logged losses and the
        clipping threshold are then wrong, too. A note when a loss has several terms and one of
        them is never divided, when a loss is a sum over rows and the optimizer or a clipping
        depends on its scale, and when a trainer divides the few micro-batches at the end of a pass
        by the number of a full step, at least `short_groups` times.

    Stays quiet:
        For losses that are divided or multiplied by any factor, and one `backward()` per step.

    What to do:
        - PyTorch: Divide the loss by the number of micro-batches before `backward()`:
          `(loss / accumulation_steps).backward()`.
        - JAX: Divide the sum of the gradients before the optimizer gets it:
          `jax.tree.map(lambda g: g / micro_batches, grads)`, or use `optax.MultiSteps`.
        - Or divide the gradients before the step, or lower the learning rate by that number.
        - For a sum over rows, use the mean: `reduction="mean"`.
        - For a short last group, choose a number of micro-batches that divides the number of
          batches in a pass, or pass `drop_last=True` to the loader.

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
        Need(scalars=("micro_batches",)),
        Need(facts=(LossCall,), scalars=("lr", "clip_limit"), optional=True),
        Need(facts=(UndividedLoss, SummedGradients, TrainerSettings), optional=True),
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

    short_groups: int = threshold(2, unit="short last groups", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check how the losses of accumulated micro-batches are computed."""
        summed = list(window.seen(SummedGradients))
        if summed:
            return [self._summed(window, summed[-1])]
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
        if not list(window.seen(LossCall)) and not list(window.seen(TrainerSettings)):
            raise NotEnoughData("no loss was traced to its operation")
        calls = _calls(window, steps_S)
        found = self._undivided(window, calls, steps_S, count_S) if calls else None
        if found is None:
            found = self._short_last_group(window, counted[0])
        return [found] if found is not None else []

    def _undivided(
        self, window: Window, calls: list[LossCall], steps_S: Ints, count_S: Floats
    ) -> Finding | None:
        number = int(np.median(count_S))
        rates = window.scalars("lr")
        adaptive = bool(rates) and all(any(a in rate.of for a in ADAPTIVE) for rate in rates)
        _, lower, mean, _ = self.fixes(window)
        divided = _division(window, number)
        whole = all(call.alone is not False for call in calls)
        of_rows = _undivided_terms(calls, "sum")
        if _undivided_terms(calls, "mean") >= (len(_terms(calls)) if whole else 1):
            severity = Severity.INFO if adaptive or not whole else Severity.WARNING
            term = "" if whole else ", because one term of the loss is never divided"
            words = (
                f"the gradients of {number} micro-batches are summed, not averaged{term}: they are "
                f"{number} times too large"
            )
            fixes: tuple[str, ...] = (divided, lower)
            by_rows = False
        elif of_rows == len(_terms(calls)) and (
            not adaptive or any(map(len, window.scalars("clip_limit")))
        ):
            severity, fixes, by_rows = Severity.INFO, (mean, divided), True
            words = (
                f"the loss is a sum over rows, and the gradients of {number} micro-batches are "
                "added: the gradient grows with the number of rows and of micro-batches"
            )
        else:
            return None
        place = next((call.location for call in calls if call.location), None)
        evidence = {"micro_batches": number, "sums_rows": by_rows}
        return self._finding(window, severity, steps_S, words, fixes, evidence, place)

    def _short_last_group(self, window: Window, counted: Series) -> Finding | None:
        """Report a trainer that divides the smaller last group of a pass like a full group.

        Such groups are rare by definition.
        """
        settings = [one for one in window.seen(TrainerSettings) if one.divides_by_all]
        if not settings:
            return None
        full = settings[-1].accumulates
        short_S = (counted.values_S >= 1) & (counted.values_S < full)
        if not self.short_groups <= short_S.sum() < len(short_S) / 2:
            return None
        number = int(np.median(counted.values_S[short_S]))
        words = (
            f"the last step of a pass adds the gradients of only {number} micro-batches, which "
            f"{settings[-1].trainer} divides by {full}: its gradient is too small"
        )
        steps_S, place = counted.steps_S[short_S], settings[-1].location
        fixes, evidence = self.fixes(window)[-1:], {"micro_batches": number}
        return self._finding(window, Severity.INFO, steps_S, words, fixes, evidence, place)

    def _finding(
        self,
        window: Window,
        severity: Severity,
        steps_S: Ints,
        message: str,
        fixes: tuple[str, ...],
        evidence: Mapping[str, EvidenceValue],
        location: str | None,
    ) -> Finding:
        return self.finding(
            window,
            severity=severity,
            step=int(steps_S[0]),
            last_step=int(steps_S[-1]),
            count=len(steps_S),
            message=message,
            fixes=fixes,
            evidence={**evidence, "steps": len(steps_S), "limit": self.num_steps},
            location=location,
        )

    def _summed(self, window: Window, seen: SummedGradients) -> Finding:
        number, steps_S = seen.micro_batches, np.array([seen.step, window.total_steps - 1])
        return self._finding(
            window,
            Severity.INFO if seen.adaptive else Severity.WARNING,
            steps_S,
            f"the gradients of {number} micro-batches are summed, not averaged: they are {number} "
            "times too large",
            self.fixes(window)[:1],
            {"micro_batches": number},
            seen.location,
        )

    def _of_trainer(self, window: Window, seen: UndividedLoss, steps_S: Ints) -> Finding:
        number = seen.micro_batches
        return self._finding(
            window,
            Severity.WARNING,
            steps_S,
            f"the gradients of {number} micro-batches are summed, not averaged, so loss and "
            f"gradient are {number} times too large: the loss of {seen.trainer} ignores "
            "`num_items_in_batch`, and the Trainer leaves the division to the loss",
            (
                "Divide the summed loss by `num_items_in_batch`, or set "
                "`trainer.model_accepts_loss_kwargs = False`, so that the Trainer divides.",
            ),
            {"micro_batches": number},
            seen.location,
        )


def _division(window: Window, number: int) -> str:
    """Return how to divide the loss; a module of Lightning calls `manual_backward` itself."""
    if any(one.trainer.endswith("of Lightning") for one in window.seen(TrainerSettings)):
        return f"Divide the loss: `self.manual_backward(loss / {number})`."
    return f"Divide the loss before `backward()`: `(loss / {number}).backward()`."


def _calls(window: Window, steps_S: Ints) -> list[LossCall]:
    """Return the losses that were read in steps of several micro-batches."""
    known = set(steps_S.tolist())
    calls = [c for c in window.seen(LossCall) if c.mode is Mode.TRAIN and c.above is not None]
    inside = [c for c in calls if c.step in known]
    return inside if len({c.series for c in inside}) == 1 else []


def _terms(calls: list[LossCall]) -> list[list[LossCall]]:
    """Return the calls of each term of the loss."""
    found: dict[object, list[LossCall]] = {}
    for call in calls:
        found.setdefault((call.operation, call.chain, call.above), []).append(call)
    return list(found.values())


def _undivided_terms(calls: list[LossCall], reduction: str) -> int:
    """Count the terms that are a `mean` or a `sum` and are never divided or weighted."""
    return sum(all(_is_plain(call, reduction) for call in same) for same in _terms(calls))


def _is_plain(call: LossCall, reduction: str) -> bool:
    above = call.above or ()
    reduces = call.reduction == reduction
    by_hand = call.reduction in (None, "none") and reduction in above
    return (reduces or by_hand) and not any(name in SCALED for name in above)
