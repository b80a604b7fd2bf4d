"""NUM009: loss scaling no longer finds a scale at which gradients are finite."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Series, Window


@dataclass(frozen=True)
class LossScaleCollapse(Rule):
    """Loss scaling no longer finds a scale at which gradients are finite.

    What it detects:
        A gradient scaler whose scale has fallen below 1, or that skips one step after
        another long after it has found its scale.

    Why it matters:
        The scaler halves its scale and skips the step whenever a gradient overflows. A
        scale below 1 means that gradients overflow by themselves, mostly because they
        are NaN: no scale cures that. The loop goes on, and nothing is learned.

    Fires:
        Error when the scale is below `scale_limit`, or when more than `skipped_share` of
        `steps` steps are skipped, counted after the first one that was applied.

    Stays quiet:
        The steps skipped at the start while the scale is found, a single skip now and
        then as the scaler tries a larger scale.

    What to do:
        - Look for the NaN or Inf that the scaler meets: train some steps in float32, or
          with `torch.autograd.set_detect_anomaly(True)`.
        - Use bfloat16 where the hardware has it: it needs no loss scaling.
        - Keep softmax, norms, exponentials and losses in float32: leave them to
          `autocast`, and call no `.half()` on the model.
        - Unscale before clipping: `scaler.unscale_(optimizer)`.

    Example:
        with torch.autocast("cuda", dtype=torch.bfloat16):    # and no GradScaler
            loss = criterion(model(x), y)

    References:
        Micikevicius et al. 2018, Mixed precision training, https://arxiv.org/abs/1710.03740
    """

    code = "NUM009"
    needs = (
        Need(scalars=("loss_scale",)),
        Need(scalars=("loss",), optional=True),
    )
    explains = ("loss_not_decreasing", "stuck_at_chance", "step_without_backward")

    scale_limit: float = threshold(
        1.0, unit="the scale", source="below it, scaling makes gradients smaller, not larger"
    )
    skipped_share: float = threshold(0.25, unit="of the steps", source="chosen by hand")
    steps: int = threshold(
        100, unit="steps", source="chosen by hand: a healthy scaler skips one in 2000"
    )

    def check(self, window: Window) -> list[Finding]:
        """Look at the scale, then at the skipped steps."""
        scales = [series for series in window.scalars("loss_scale") if len(series)]
        if not window.total_steps:
            raise NotEnoughData("no step was seen")
        if not scales:
            raise NotApplicable("no gradient scaler is in use")
        found = self._scale(window, scales) or self._skips(window)
        return [found] if found else []

    def _scale(self, window: Window, scales: list[Series]) -> Finding | None:
        for series in scales:
            below = np.flatnonzero(series.values_S < self.scale_limit)
            if len(below) and below[-1] == len(series) - 1:
                above = np.flatnonzero(series.values_S >= self.scale_limit)
                onset = int(above[-1]) + 1 if len(above) else 0
                while onset and series.values_S[onset] < series.values_S[onset - 1]:
                    onset -= 1  # each overflow on the way down was part of it
                value = float(series.values_S[-1])
                return self.finding(
                    window,
                    severity=Severity.ERROR,
                    step=int(series.steps_S[onset]),
                    last_step=int(series.steps_S[-1]),
                    count=len(series) - onset,
                    message=f"the loss scale has fallen to {value:.3g}: no scale helps",
                    evidence={"value": value, "limit": self.scale_limit},
                    location=_location(window),
                )
        return None

    def _skips(self, window: Window) -> Finding | None:
        applied = np.flatnonzero(~window.skipped_S)
        if not len(applied):
            return None
        skipped_S = window.skipped_S[applied[0] :]
        if len(skipped_S) < self.steps:
            return None
        shares_S = sliding_window_view(skipped_S, self.steps).mean(axis=1)
        above = np.flatnonzero(shares_S > self.skipped_share)
        if not len(above):
            return None
        first = int(applied[0]) + int(above[0])
        onset = first + int(np.flatnonzero(window.skipped_S[first : first + self.steps])[0])
        share = float(shares_S.max())
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=int(window.steps_S[onset]),
            last_step=int(window.steps_S[np.flatnonzero(window.skipped_S)[-1]]),
            count=int(skipped_S.sum()),
            message=f"loss scaling skips {share:.0%} of {self.steps} steps",
            evidence={"value": share, "limit": self.skipped_share, "steps": self.steps},
            location=_location(window),
        )


def _location(window: Window) -> str | None:
    """The line of a loss that is scaled."""
    return next((s.location for s in window.scalars("loss") if s.location), None)
