"""NUM009: loss scaling finds no scale at which gradients are finite."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Series, Window


@frozen
class LossScaleCollapse(Rule):
    """Loss scaling finds no scale at which gradients are finite.

    What it detects:
        A gradient scaler whose scale falls below 1, or that still skips many steps after it
        has found a scale.

    Why it matters:
        The scaler halves its scale and skips the step whenever a gradient overflows. A scale
        below 1 means that gradients overflow without scaling, usually because they are NaN. No
        scale fixes that. Training continues, but the model learns nothing.

    Fires:
        Error when the scale is below `scale_limit`, or when more than `skipped_share` of
        `steps` steps are skipped after the first applied step.

    Stays quiet:
        For steps skipped at the start while the scaler searches for a scale, and for an occasional
        skip when it tries a larger scale.

    What to do:
        - PyTorch: Find the NaN or Inf in the gradients: train some steps in float32, or with
          `torch.autograd.set_detect_anomaly(True)`.
        - Keras: Find the NaN or Inf in the gradients: train some steps in float32, or call
          `tf.debugging.enable_check_numerics()`.
        - JAX: Find the NaN or Inf in the gradients: train some steps in float32, or set
          `jax.config.update("jax_debug_nans", True)`.
        - Use bfloat16 if the hardware supports it: it needs no loss scaling.
        - PyTorch: Keep softmax, norms, exponentials and losses in float32: leave them to
          `autocast`, and do not call `.half()` on the model.
        - PyTorch: Unscale before clipping: `scaler.unscale_(optimizer)`.

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
    proof = Proof(title="Loss scale", scalars=("loss_scale",), reference=("limit",), scale="log")
    explains = ("loss_not_decreasing", "stuck_at_chance", "step_without_backward")

    scale_limit: float = threshold(
        1.0, unit="loss scale", source="below 1, scaling makes gradients smaller"
    )
    skipped_share: float = threshold(0.25, unit="of the steps", source="chosen by hand")
    steps: int = threshold(
        100, unit="steps", source="chosen by hand: a healthy scaler skips one step in 2,000"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the scale, then the skipped steps."""
        scales = [series for series in window.scalars("loss_scale") if len(series)]
        if not window.total_steps:
            raise NotEnoughData("no step was recorded")
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
                    onset -= 1  # include each overflow on the way down
                value = float(series.values_S[-1])
                return self.finding(
                    window,
                    severity=Severity.ERROR,
                    step=int(series.steps_S[onset]),
                    last_step=int(series.steps_S[-1]),
                    count=len(series) - onset,
                    message=f"the loss scale fell to {value:.3g} (limit {self.scale_limit:g}): "
                    "gradients are not finite at any scale",
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
            message=f"loss scaling skipped {share:.0%} of {self.steps} steps "
            f"(limit {self.skipped_share:.0%})",
            evidence={"value": share, "limit": self.skipped_share, "steps": self.steps},
            location=_location(window),
        )


def _location(window: Window) -> str | None:
    """Return the line of the scaled loss."""
    return next((s.location for s in window.scalars("loss") if s.location), None)
