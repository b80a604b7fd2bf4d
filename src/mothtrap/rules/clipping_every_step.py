"""GRD106: clipping shrinks nearly every gradient by a large factor, or comes too late."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import ClippedLate
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Ints, Window
from mothtrap.rules._gradient_norms import late_clipping
from mothtrap.rules._stretches import last_stretch

BLOCK_STEPS = 20
"""Steps per block when the onset is determined; chosen by hand."""
ADAPTIVE = ("adam", "rmsprop", "adagrad", "adadelta", "adafactor", "lion", "lamb")
"""Parts of the names of optimizers that divide each step by the size of the gradient."""
LATE = "after the step it has no effect"
"""Words that only the fix for late clipping has."""
UNSCALE = "Unscale before clipping"
"""Beginning of the fix for gradients that are still scaled."""
SCALED = 1024.0, 0.01
"""Minimum loss scale, and minimum norm as a share of it, of gradients that are probably still
scaled. Chosen by hand.
"""


@frozen
class ClippingEveryStep(Rule):
    """Clipping shrinks nearly every gradient by a large factor, or comes too late.

    What it detects:
        A clipping threshold (`clip_grad_norm_`, `clipnorm`) far below the usual gradient norm.
        Also a clipping call after the optimizer step, which clips gradients that were already
        applied.

    Why it matters:
        Clipping is meant for rare outliers. If it acts in every step, all gradients have the same
        norm. With SGD this lowers the effective learning rate, and steps no longer shrink as the
        loss falls. Clipping after the step has no effect, so outliers are applied unclipped.

    Fires:
        Warning when in the last `num_steps` steps the norm was more than `cut_ratio` times the
        clipping threshold in at least `cut_share` of them. Warning when at least `late_steps`
        steps of an optimizer were clipped only after the step, the gradients were then cleared,
        and at least one norm was above the threshold.

    Stays quiet:
        If clipping shrinks gradients less, or only in the first steps. For calls that only measure
        the norm. For clipping after the step if the gradients are used again, by accumulation or by
        another optimizer. With optimizers such as Adam and RMSprop, whose steps do not depend on
        the gradient norm, the finding is only a note, unless the clipping threshold is below
        `tiny_limit`.

    What to do:
        - PyTorch: Raise the clipping threshold to about the median norm (see the evidence), so
          that it clips only outliers.
        - Keras: Raise `global_clipnorm` or `clipnorm` of the optimizer to about the median norm
          (see the evidence), or leave it out.
        - PyTorch: Unscale before clipping if you use a gradient scaler:
          `scaler.unscale_(optimizer)`.
        - Keras: Find out why the gradient is large: a summed loss, or targets or inputs that are
          not normalized.
        - PyTorch: Find out why the gradient is large: a summed loss, or targets or inputs that
          are not normalized.
        - PyTorch: Clip between `backward()` and `step()`, with a gradient scaler after
          `scaler.unscale_(optimizer)`: after the step it has no effect.

    Example:
        clip_grad_norm_(model.parameters(), 0.01)     # the norm is about 2
        clip_grad_norm_(model.parameters(), 5.0)

    References:
        Pascanu, Mikolov, Bengio 2013, On the difficulty of training recurrent neural
        networks, https://arxiv.org/abs/1211.5063
    """

    code = "GRD106"
    needs = (
        Need(scalars=("gradient_norm", "clip_limit")),
        Need(scalars=("loss", "lr", "loss_scale"), optional=True),
        Need(facts=(ClippedLate,), each_step=True, optional=True),
    )
    proof = Proof(
        title="Gradient norm before clipping",
        scalars=("gradient_norm",),
        reference=("clip_limit",),
        scale="log",
    )
    explains = (
        *("learning_rate_too_low", "loss_not_decreasing", "vanishing_gradient", "update_ratio"),
        *("epsilon_too_large", "stuck_at_chance", "unchanged_tensor"),
    )
    passes = True

    cut_ratio: float = threshold(10.0, unit="times the clipping threshold", source="chosen by hand")
    cut_share: float = threshold(0.8, unit="of the steps", source="chosen by hand: most steps")
    num_steps: int = threshold(100, unit="clipped steps", source="chosen by hand")
    tiny_limit: float = threshold(
        1e-5,
        unit="clipping threshold",
        source="chosen by hand: with 1e6 parameters, a gradient is then as small as Adam's "
        "epsilon of 1e-8",
    )
    late_steps: int = threshold(16, unit="steps of the optimizer", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Compare the norms before clipping with the threshold."""
        steps_S, ratio_S, norm_S = _cuts(window)
        late = late_clipping(window)
        if late is not None:
            return self._late(window, late, ratio_S, norm_S)
        if len(steps_S) < self.num_steps:
            raise NotEnoughData(f"needs {self.num_steps} clipped steps, saw {len(steps_S)}")
        recent_S = ratio_S[-self.num_steps :] > self.cut_ratio
        if recent_S.mean() < self.cut_share:
            return []
        onset = self._onset(ratio_S)
        ratio, norm = float(np.median(ratio_S[onset:])), float(np.median(norm_S[onset:]))
        limit = norm / ratio
        adaptive = all(_is_adaptive(rate.of) for rate in window.scalars("lr"))
        adaptive = adaptive and limit > self.tiny_limit
        scale = _loss_scale(window, norm)
        fixes = tuple(fix for fix in self.fixes(window) if LATE not in fix)
        if scale is not None:
            fixes = (*(fix for fix in fixes if UNSCALE in fix), *fixes)
        return [
            self.finding(
                window,
                severity=Severity.INFO if adaptive else Severity.WARNING,
                step=int(steps_S[onset]),
                last_step=int(steps_S[-1]),
                count=int((ratio_S > self.cut_ratio).sum()),
                message=(
                    f"clipping to {limit:.3g} shrinks the gradient by more than "
                    f"{self.cut_ratio:g}x in {100 * recent_S.mean():.0f} % of the steps; the "
                    f"median norm is {norm:.3g}, {ratio:.3g}x the clipping threshold"
                    + (f": near the loss scale of {scale:,.0f}" if scale is not None else "")
                ),
                evidence={
                    "value": ratio,
                    "limit": self.cut_ratio,
                    "clip_limit": limit,
                    "norm": norm,
                    "share": float(recent_S.mean()),
                },
                fixes=tuple(dict.fromkeys(fixes)),
                location=next((s.location for s in window.scalars("loss") if s.location), None),
            )
        ]

    def _late(
        self, window: Window, late: ClippedLate, ratio_S: Floats, norm_S: Floats
    ) -> list[Finding]:
        if late.late_steps < self.late_steps:
            raise NotEnoughData(
                f"needs {self.late_steps} steps of {late.optimizer} with late clipping, saw "
                f"{late.late_steps}"
            )
        above = ratio_S > 1
        if not above.any():
            return []
        limit = float(np.median(norm_S / ratio_S))
        return [
            self.finding(
                window,
                severity=Severity.WARNING,
                step=late.since,
                last_step=late.step,
                count=late.late_steps,
                message=(
                    f"gradients are clipped to {limit:.3g} after {late.optimizer} has applied "
                    f"them, so clipping has no effect; the norm was above {limit:.3g} in "
                    f"{100 * above.mean():.0f} % of the steps"
                ),
                evidence={
                    "optimizer": late.optimizer,
                    "steps": late.late_steps,
                    "limit": self.late_steps,
                    "clip_limit": limit,
                    "norm": float(np.median(norm_S)),
                    "share": float(above.mean()),
                },
                fixes=tuple(fix for fix in self.fixes(window) if LATE in fix),
                location=late.location,
            )
        ]

    def _onset(self, ratio_S: Floats) -> int:
        """Return the first step of the blocks up to the end in which most steps are cut."""
        count = len(ratio_S) // BLOCK_STEPS
        blocks = (ratio_S[-count * BLOCK_STEPS :] > self.cut_ratio).reshape(count, BLOCK_STEPS)
        stretch = last_stretch(blocks.mean(axis=1) >= self.cut_share)
        first = stretch[0] if stretch else count - 1
        return 0 if first == 0 else len(ratio_S) - (count - first) * BLOCK_STEPS


def _loss_scale(window: Window, norm: float) -> float | None:
    """Return the loss scale if gradients with a norm are probably still multiplied by it."""
    every = [series.values_S for series in window.scalars("loss_scale") if len(series)]
    if not every:
        return None
    scale, (least, share) = float(np.median(every[0])), SCALED
    return scale if scale >= least and norm >= share * scale else None


def _is_adaptive(optimizer: str) -> bool:
    """Return whether the steps of an optimizer do not depend on the gradient norm."""
    return any(name in optimizer.lower() for name in ADAPTIVE)


def _cuts(window: Window) -> tuple[Ints, Floats, Floats]:
    """Return the step, the norm / threshold, and the norm of each clipped step."""
    limits = [s for s in window.scalars("clip_limit") if len(s)][:1]
    known = [s for s in window.scalars("gradient_norm") if len(s)]
    norms = [s for s in known if s.of in {limit.of for limit in limits}]
    if not norms:
        raise NotApplicable("gradients are not clipped by norm")
    shared, at_norm, at_limit = np.intersect1d(
        norms[0].steps_S, limits[0].steps_S, return_indices=True
    )
    norm_S, limit_S = norms[0].values_S[at_norm], limits[0].values_S[at_limit]
    good = np.isfinite(norm_S) & (limit_S > 0)
    return shared[good], norm_S[good] / limit_S[good], norm_S[good]
