"""GRD103: the gradient norm spikes in single steps."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import StatesKept
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.optimizers import ClippedLate
from mothtrap.core.facts.policies import PolicyEntropy
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need, any_of
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Bools, Floats, Ints, Window
from mothtrap.rules._batch_rows import has_few_rows
from mothtrap.rules._gradient_norms import clipping_limit, gradient_norms
from mothtrap.rules._loss_calls import targets_move
from mothtrap.rules._losses import finite_part, has_players, loss_location
from mothtrap.rules._stretches import stretches

HISTORY_STEPS = 20
"""Number of previous steps that are the baseline of a spike; chosen by hand."""

LEAST_SPREAD = 0.1
"""Least assumed spread of the logarithm, 10 %; chosen by hand."""

LONGEST_STEPS = 3
"""A rise that lasts longer without only falling is an explosion; chosen by hand."""


@frozen
class GradientSpike(Rule):
    """The gradient norm spikes in single steps.

    What it detects:
        A gradient norm that for one to three steps is many times its earlier value, and then
        returns to it or decays.

    Why it matters:
        One spike can undo hundreds of steps. It points to an unusual batch, such as a mislabeled
        or corrupt one, or, in recurrent and very deep networks, to a steep region of the loss.

    Fires:
        When the logarithm of the norm is `robust_z` robust standard deviations above the previous
        steps and the norm is at least `ratio_limit` times their median. Warning when the loss
        then rises to `loss_ratio` times its own median; otherwise a note.

    Stays quiet:
        In the first steps of training. For steps that loss scaling skips and explosions (GRD101).
        The finding is only a note with clipped gradients, in GANs, for policies, for models that
        compute their own targets, and for recurrent layers that keep their state from batch to
        batch.

    What to do:
        - PyTorch: Clip the gradient norm before the step, to a few times its median:
          `clip_grad_norm_(parameters, 1.0)`.
        - Keras: Clip the gradient norm to a few times its median: `global_clipnorm` of the
          optimizer.
        - JAX: Clip the gradient norm before the update, to a few times its median:
          `optax.clip_by_global_norm(1.0)`.
        - Inspect the batch of that step for wrong labels, unusual lengths, and values out of
          range.
        - Lower the learning rate if spikes recur.

    Example:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    References:
        Chowdhery et al. 2022, PaLM: Scaling Language Modeling with Pathways, section 5.1,
        https://arxiv.org/abs/2204.02311
    """

    code = "GRD103"
    needs = (
        *any_of(Need(kinds=("gradient",), statistics=("l2",)), Need(scalars=("gradient_norm",))),
        Need(scalars=("loss", "clip_limit"), optional=True),
        Need(facts=(ClippedLate,), each_step=True, optional=True),
        Need(facts=(LossCall, PolicyEntropy, BootstrappedTargets, StatesKept), optional=True),
    )
    proof = Proof(
        title="Gradient norm",
        scalars=("gradient_norm",),
        statistic="gradient.l2",
        joint=True,
        reference=("median", "limit"),
        scale="log",
    )
    explains = ("loss_spike",)

    robust_z: float = threshold(
        8.0, unit="robust standard deviations of the logarithm", source="chosen by hand"
    )
    ratio_limit: float = threshold(10.0, unit="times the earlier median", source="chosen by hand")
    loss_ratio: float = threshold(1.5, unit="times the earlier median", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check the gradient norm of every optimizer."""
        norms = gradient_norms(window)
        if not norms or max(len(steps_S) for _, steps_S, _ in norms) <= HISTORY_STEPS + 1:
            raise NotEnoughData(f"no optimizer has {HISTORY_STEPS + 2} steps with a gradient")
        found = [self._judge(window, *norm) for norm in norms]
        judged = [finding for finding in found if finding]
        return sorted(judged, key=lambda f: (f.severity.rank, f.step))[:1]

    def _judge(
        self, window: Window, optimizer: str, steps_S: Ints, norm_S: Floats
    ) -> Finding | None:
        if len(norm_S) <= HISTORY_STEPS + 1 or norm_S.min() <= 0:
            return None
        high_S, median_S = self._outliers(norm_S)
        spikes = [
            (start, stop)
            for start, stop in stretches(high_S)
            if stop < len(norm_S)  # it has come back
            and (stop - start <= LONGEST_STEPS or _only_falls(norm_S[start : stop + 1]))
        ]
        if not spikes:
            return None
        heard = [s for s in spikes if self._loss_rises(window, optimizer, int(steps_S[s[0]]))]
        harmless = clipping_limit(window) is not None or has_players(window) or has_few_rows(window)
        # Rewards are rare, and each rollout or target network brings other targets.
        harmless = harmless or targets_move(window) or any(True for _ in window.seen(PolicyEntropy))
        # Each pass begins with new states.
        harmless = harmless or any(True for _ in window.seen(StatesKept))
        severity = Severity.WARNING if heard and not harmless else Severity.INFO
        told = heard or spikes
        first = told[0]
        value = float(norm_S[first[0] : first[1]].max())
        ratio = value / float(median_S[first[0]])
        more = len(told) - 1
        also = f"; {more} more spike{'s' * (more > 1)}" if more else ""
        return self.finding(
            window,
            severity=severity,
            step=int(steps_S[first[0]]),
            last_step=int(steps_S[told[-1][1] - 1]),
            count=len(told),
            message=(
                f"gradient norm {value:.3g} at step {steps_S[first[0]]} is {ratio:.3g}x its "
                "earlier median (limit "
                f"{self.ratio_limit:g}x){', and the loss jumps after it' if heard else ''}{also}"
            ),
            evidence={
                "value": value,
                "median": float(median_S[first[0]]),
                "ratio": ratio,
                "limit": self.ratio_limit,
                "spikes": len(spikes),
                "optimizer": optimizer,
            },
            location=loss_location(window, optimizer) or _any_location(window),
        )

    def _outliers(self, norm_S: Floats) -> tuple[Bools, Floats]:
        """Return which norms are far above the previous norms, and the medians of the latter."""
        log_S = np.log(norm_S)
        before_SH = sliding_window_view(log_S, HISTORY_STEPS)[:-1]
        median_S = np.median(before_SH, axis=1)
        spread_S = 1.4826 * np.median(np.abs(before_SH - median_S[:, None]), axis=1)
        above_S = log_S[HISTORY_STEPS:] - median_S
        far_S = above_S > self.robust_z * np.maximum(spread_S, LEAST_SPREAD)
        early = np.zeros(HISTORY_STEPS, dtype=bool)
        high_S = np.concatenate([early, far_S & (above_S > np.log(self.ratio_limit))])
        full_S = np.concatenate([np.full(HISTORY_STEPS, np.nan), np.exp(median_S)])
        return high_S, full_S

    def _loss_rises(self, window: Window, optimizer: str, step: int) -> bool:
        """Return whether a loss of the optimizer jumps right after `step`."""
        for series in window.scalars("loss"):
            if optimizer and series.optimizers and optimizer not in series.optimizers:
                continue
            steps_S, loss_S = finite_part(series)
            before_S = loss_S[steps_S < step][-HISTORY_STEPS:]
            after_S = loss_S[(steps_S > step) & (steps_S <= step + LONGEST_STEPS)]
            if not len(before_S) or not len(after_S):
                continue
            median = float(np.median(before_S))
            spread = 1.4826 * float(np.median(np.abs(before_S - median)))
            level = median + max((self.loss_ratio - 1) * abs(median), 6 * spread)
            if float(after_S.max()) > level:
                return True
        return False


def _only_falls(norm_S: Floats) -> bool:
    """Return whether norms only fall after the first norm."""
    return bool(norm_S.argmax() == 0 and norm_S[-1] < 0.5 * norm_S[0])


def _any_location(window: Window) -> str | None:
    return next((s.location for s in window.scalars("loss") if s.location), None)
