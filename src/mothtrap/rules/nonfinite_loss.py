"""NUM001: the loss is NaN or infinite."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import NonfiniteInput
from mothtrap.core.facts.nonfinite import FiniteOutputs, FirstBadOperation
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.operation_advice import advice_on
from mothtrap.core.proof import LOSS
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.window import Series, Window
from mothtrap.rules._operation_advice import (
    REPLAY_NAMES_IT,
    operation_at,
    operation_in_words,
)


@frozen
class NonfiniteLoss(Rule):
    """The loss is NaN or infinite.

    What it detects:
        A loss value that is NaN or infinite, in training or in evaluation.

    Why it matters:
        The backward pass from this loss gives gradients that are not finite. One optimizer step
        with them can destroy the weights, and then every later loss is NaN.

    Fires:
        Error at the first training step whose loss is not finite. Warning for a step that loss
        scaling skipped, and for an evaluation loss.

    Stays quiet:
        Very large or negative losses, as long as they are finite.

    What to do:
        - Guard the operation that broke: log of 0, division by 0, square root of 0, exp of a large
          number.
        - PyTorch: Use the numerically stable loss: pass logits to `cross_entropy` or
          `binary_cross_entropy_with_logits`.
        - Keras: Use the numerically stable loss: pass logits, with `from_logits=True`.
        - JAX: Use the numerically stable loss: pass logits to `optax.softmax_cross_entropy` or
          `optax.sigmoid_binary_cross_entropy`.
        - If the loss grew before it broke, lower the learning rate, or clip gradients.
        - In half precision, compute sums and means in float32: the largest float16 number is
          65,504.

    Example:
        loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()  # p can be 0 or 1
        loss = F.binary_cross_entropy_with_logits(logits, y)            # safe

    References:
        Goldberg 1991, What every computer scientist should know about floating-point
        arithmetic, https://doi.org/10.1145/103162.103163
    """

    code = "NUM001"
    needs = (
        Need(scalars=("loss",)),
        Need(
            facts=(FiniteOutputs, FirstBadOperation, NonfiniteInput, TrainerSettings),
            optional=True,
        ),
    )
    proof = LOSS
    explains = (
        "nonfinite_gradient",
        "loss_diverging",
        "nonfinite_weight",
        "updates_all_skipped",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every loss series in training and evaluation."""
        findings = []
        judged = False
        for mode in (Mode.TRAIN, Mode.EVAL):
            every = [series for series in window.scalars("loss", mode) if len(series)]
            judged = judged or bool(every)
            bad = [series for series in every if not np.isfinite(series.values_S).all()]
            if bad:
                findings.append(self._judge(window, mode, bad))
        if not judged:
            raise NotEnoughData("no loss was recorded")
        return findings

    def _judge(self, window: Window, mode: Mode, bad: list[Series]) -> Finding:
        skipped = window.steps_S[window.skipped_S]
        firsts = []
        for series in bad:
            nonfinite = ~np.isfinite(series.values_S)
            applied = nonfinite & ~np.isin(series.steps_S, skipped)
            # An applied step is more informative than an earlier one that loss scaling skipped.
            index = int(np.flatnonzero(applied if applied.any() else nonfinite)[0])
            firsts.append((not applied.any(), int(series.steps_S[index]), index, series))
        was_skipped, step, index, series = min(firsts, key=lambda first: first[:2])
        nonfinite_steps = np.unique(
            np.concatenate([s.steps_S[~np.isfinite(s.values_S)] for s in bad])
        )
        nonfinite_steps = nonfinite_steps[nonfinite_steps >= step]
        value = float(series.values_S[index])
        before = series.values_S[:index][np.isfinite(series.values_S[:index])]
        history = f"; the last finite loss was {before[-1]:.4g}" if len(before) else ""
        kind = "loss" if mode is Mode.TRAIN else "evaluation loss"
        return self.finding(
            window,
            severity=Severity.WARNING if was_skipped or mode is Mode.EVAL else Severity.ERROR,
            step=step,
            last_step=int(nonfinite_steps[-1]),
            count=len(nonfinite_steps),
            message=f"the {kind} is {_word(value)}{history}{_origin(window, step, mode)}"
            f"{_hidden(window, step)}",
            evidence={
                "value": value,
                "last_finite": float(before[-1]) if len(before) else None,
                "series": series.of,
                "skipped": was_skipped,
            },
            fixes=self._fixes(window, step, mode),
            location=_place(window, step, mode) or series.location,
            mode=mode.value,
        )

    def _fixes(self, window: Window, step: int, mode: Mode) -> tuple[str, ...] | None:
        """Return the advice on the operation that broke first; None for the rule's own fixes."""
        if mode is not Mode.TRAIN:
            return None
        seen = operation_at(window, step)
        advice = advice_on(seen) if seen is not None else ""
        if advice:
            return (advice,)
        return None if seen is not None else (REPLAY_NAMES_IT, *self.fixes(window))


def _place(window: Window, step: int, mode: Mode) -> str | None:
    """Return the line of the first operation that made the value, if known."""
    seen = operation_at(window, step) if mode is Mode.TRAIN else None
    return seen.location if seen is not None else None


def _origin(window: Window, step: int, mode: Mode) -> str:
    """Return the operation that broke, or a note that no module broke."""
    if mode is not Mode.TRAIN:
        return ""
    for seen in window.seen(FirstBadOperation):
        if seen.step == step and not seen.backward:
            return f"; {_operation(seen)}"
    if any(seen.step == step for seen in window.seen(NonfiniteInput)):
        return ""
    if any(seen.step == step for seen in window.seen(FiniteOutputs)):
        return (
            "; every module's output was finite, so the fault arose between the model and the "
            "loss, or in the targets or other inputs of the loss"
        )
    return ""


def _hidden(window: Window, step: int) -> str:
    """Return a note if the trainer hides non-finite losses from its log."""
    for settings in window.seen(TrainerSettings):
        if settings.step <= step and settings.replaces_nonfinite:
            return (
                f"; the {settings.trainer} logs a mean of other losses instead "
                "(logging_nan_inf_filter=True)"
            )
    return ""


def _operation(seen: FirstBadOperation) -> str:
    """Return the first operation that made the value, in words."""
    if seen.since is not None:
        where = f" in {seen.module}" if seen.module else ""
        between = f"between {seen.since} and {seen.operation}"
        return f"it first appeared{where} {between}, in one of their results or inputs"
    return operation_in_words(seen)


def _word(value: float) -> str:
    if np.isnan(value):
        return "NaN"
    return "infinite" if value > 0 else "minus infinity"
