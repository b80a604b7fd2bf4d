"""OPT601: the learning rate is zero, or decays to almost zero too early."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Series, Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._losses import finite_part
from mothtrap.rules._stretches import last_stretch, share_below
from mothtrap.rules._weights import optimizer_location

SLOWLY = "Decay more slowly"
"""Beginning of the fix for a schedule that is stepped once per epoch."""
TENTH = 0.1
"""Share of the peak rate at which a loss that settles would have settled; chosen by hand."""
VANISHED = 1e-6
"""Share of the peak below which no schedule plans a rate; chosen by hand."""
LEAST_RISE = 4
"""Fewest steps of a rise from zero whose shape can be recognized."""
BACK_SHARE = 0.9
"""Share of the peak at which a rate counts as back; chosen by hand."""
EARLY_SHARE = 0.16
"""Share of the peak that distinguishes a cosine from a triangle after a quarter of the rise: a
cosine is at 0.09, a triangle at 0.22."""


@frozen
class LearningRateZero(Rule):
    """The learning rate is zero, or decays to almost zero too early.

    What it detects:
        Steps with a learning rate of 0 in all parameter groups of an optimizer. Also a schedule
        that ends too early, typically because an epoch scheduler is stepped once per batch. A
        cosine schedule that is stepped past its `T_max` rises and falls again and again.

    Why it matters:
        Training runs, but the weights do not change.

    Fires:
        Zero: warning after `zero_steps` consecutive steps; error after `broken_steps` steps that
        are at least half of all steps so far. Ended early: when the rate falls below
        `vanished_ratio` of its peak within `fall_steps` steps, and training continues for
        `idle_share` of the length of the schedule (warning) or `waited_ratio` times as long
        (error), unless the loss had fallen and settled by then; if training continues for less
        than the length of the schedule, the loss must have settled before the rate reached a tenth
        of its peak. If the rate falls from half of its peak to the end within
        `abrupt_steps` steps, and then to a millionth of the peak, the loss must have settled before
        this fall. Cosine: warning when the rate falls to almost zero and
        rises smoothly again `cycles` times.

    Stays quiet:
        For warm-up from 0, the first few steps at 0, decay to 0 at the end of training, cosine
        restarts, triangular schedules, and reductions after the loss has stopped falling.

    What to do:
        - PyTorch: Call `scheduler.step()` once per epoch if its arguments count epochs. To step
          it per batch, give `T_max`, `total_steps`, or `step_size` in batches.
        - Keras: Give the schedule the number of steps, not the number of epochs (`decay_steps`),
          and check the value that `LearningRateScheduler` returns.
        - JAX: Give the schedule the number of updates, not the number of epochs (`decay_steps`,
          `transition_steps`).
        - PyTorch: Check the order of `optimizer.step()` and `scheduler.step()`, and the value
          of the schedule at step 0.
        - Keras: Check the value of the schedule at step 0.
        - JAX: Keep the state that `optimizer.update` returns, because it counts the steps of
          the schedule; check the value of the schedule at step 0.
        - PyTorch: Give the optimizer a learning rate above 0, e.g. 1e-3 for Adam.
        - Keras: Give the optimizer a learning rate above 0, e.g.
          `keras.optimizers.Adam(1e-3)`.
        - JAX: Give the optimizer a learning rate above 0, e.g. `optax.adam(1e-3)`.
        - Decay more slowly: after N epochs with a factor of `0.01 ** (1 / N)` per epoch, the rate
          is 1 % of the first rate.

    Example:
        for epoch in range(epochs):
            for x, y in loader:
                train_step(x, y)
            scheduler.step()      # outside of the inner loop

    References:
        https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
    """

    code = "OPT601"
    title = "learning rate of zero"
    needs = (
        Need(scalars=("lr",)),
        Need(facts=(LoaderBegan, OptimizerFacts), scalars=("loss",), optional=True),
    )
    proof = Proof(title="Learning rate", scalars=("lr",))
    explains = (
        *UNLEARNED,
        "learning_rate_too_low",
        "overtraining",
        "unchanged_tensor",
        "update_ratio",
        "evaluation_unchanged",
    )

    zero_steps: int = threshold(
        20, unit="consecutive steps", source="chosen by hand: longer than a few initial steps"
    )
    broken_steps: int = threshold(50, unit="consecutive steps", source="chosen by hand")
    vanished_ratio: float = threshold(
        1e-2, unit="of the peak rate", source="chosen by hand: usual schedules end there"
    )
    fall_steps: int = threshold(
        500, unit="steps from the peak to the end", source="chosen by hand: a few epochs"
    )
    waited_ratio: float = threshold(
        3.0, unit="times the length of the schedule", source="chosen by hand"
    )
    abrupt_steps: int = threshold(
        50,
        unit="steps from half of the peak to the end",
        source="chosen by hand: then the rate itself stops the loss",
    )
    idle_share: float = threshold(
        0.6,
        unit="of the length of the schedule",
        source="chosen by hand: exponential decay to 1/1000 of the peak spends 0.5 there",
    )
    cycles: int = threshold(3, unit="cycles", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Check the learning rate of every optimizer."""
        every = [series for series in window.scalars("lr") if len(series)]
        if not every:
            raise NotEnoughData("no learning rate was recorded")
        alone = all(series.values_S[-1] == 0 for series in every)
        found = [
            finding
            for s in every
            for finding in (
                self._zero(window, s, alone),
                self._gone(window, s),
                self._back(window, s),
            )
        ]
        judged = [f for f in found if f is not None]
        if not judged and max(series.total for series in every) < self.zero_steps:
            raise NotEnoughData(f"fewer than {self.zero_steps} steps were recorded")
        return sorted(judged, key=lambda f: (f.severity.rank, f.step))[:1]

    def _zero(self, window: Window, series: Series, alone: bool) -> Finding | None:
        stretch = last_stretch(series.values_S == 0)
        if stretch is None or stretch[1] - stretch[0] < self.zero_steps:
            return None
        length = stretch[1] - stretch[0]
        whole = length == len(series)
        broken = length >= self.broken_steps and (whole or 2 * length >= series.total)
        step = int(series.steps_S[stretch[0]])
        others = tuple(fix for fix in self.fixes(window) if not fix.startswith(SLOWLY))
        return self.finding(
            window,
            severity=Severity.ERROR if broken and alone else Severity.WARNING,
            step=step,
            last_step=int(series.steps_S[-1]),
            count=length,
            message=f"the learning rate of {_named(series)} was 0 for {length} steps (limit "
            f"{self.zero_steps})",
            evidence={"optimizer": series.of, "steps": length, "limit": self.zero_steps},
            # The rate was never above 0, so a schedule is not the cause.
            fixes=others[::-1] if whole and series.first == 0 else others,
            location=optimizer_location(window, series.of),
        )

    def _gone(self, window: Window, series: Series) -> Finding | None:
        steps_S, rate_S = finite_part(series)
        if not len(rate_S) or series.total > len(series) or rate_S.max() <= 0:
            return None
        peak = len(rate_S) - 1 - int(np.argmax(rate_S[::-1]))
        # Two reductions by 10 end exactly at the limit; tolerate rounding.
        stretch = last_stretch(rate_S < (1 - 1e-6) * self.vanished_ratio * rate_S[peak])
        if stretch is None:
            return None
        gone = stretch[0]
        fell = gone - peak
        waited = len(rate_S) - gone
        if fell > self.fall_steps or waited < max(self.idle_share * gone, self.broken_steps):
            return None
        settled_by = gone
        if waited < gone:
            settled_by = peak + int(np.argmax(rate_S[peak:] < TENTH * rate_S[peak]))
        if rate_S[-1] < VANISHED * rate_S[peak]:
            half = peak + int(np.argmax(rate_S[peak:] < rate_S[peak] / 2))
            settled_by = half if gone - half <= self.abrupt_steps else gone
        if _had_settled(window, series, settled_by):
            return None
        return self.finding(
            window,
            severity=Severity.ERROR if waited >= self.waited_ratio * gone else Severity.WARNING,
            step=int(steps_S[gone]),
            last_step=int(steps_S[-1]),
            count=len(rate_S) - gone,
            message=(
                f"the learning rate of {_named(series)} fell from {rate_S[peak]:.3g} to "
                f"{rate_S[gone]:.3g} within {fell} steps, and stayed at this value or below for "
                f"{len(rate_S) - gone} steps: its schedule ends too early"
            ),
            evidence={
                "optimizer": series.of,
                "peak": float(rate_S[peak]),
                "value": float(rate_S[-1]),
                "fall_steps": fell,
                "limit": self.vanished_ratio,
            },
            fixes=_fixes(window, self.fixes(window), rate_S[peak : gone + 1]),
            location=optimizer_location(window, series.of),
        )

    def _back(self, window: Window, series: Series) -> Finding | None:
        steps_S, rate_S = finite_part(series)
        if len(rate_S) < 4 * LEAST_RISE or rate_S.max() <= 0:
            return None
        lows_S = np.flatnonzero(rate_S < self.vanished_ratio * rate_S.max())
        ends = lows_S[:-1][np.diff(lows_S) > LEAST_RISE]
        rises = [int(end) for end in ends if _rises_as_a_cosine(rate_S[end:] / rate_S.max())]
        if len(rises) < self.cycles:
            return None
        period = int(np.median(np.diff(rises)))
        return self.finding(
            window,
            title="learning rate up and down",
            severity=Severity.WARNING,
            step=int(steps_S[rises[0]]),
            last_step=int(steps_S[-1]),
            count=len(rate_S) - rises[0],
            message=(
                f"the learning rate of {_named(series)} fell to almost 0 and rose again "
                f"{len(rises)} times (limit {self.cycles}), every {period} steps: a cosine "
                "schedule rises again when it is stepped past its `T_max`"
            ),
            evidence={"optimizer": series.of, "cycles": len(rises), "period": period},
            location=optimizer_location(window, series.of),
        )


def _fixes(window: Window, fixes: tuple[str, ...], rate_S: Floats) -> tuple[str, ...]:
    """Return the fixes for a fall of the rate: another schedule if it is stepped once per epoch."""
    changes = np.flatnonzero(np.diff(rate_S))
    batches = [one.batches for one in window.seen(LoaderBegan) if one.batches]
    per_epoch = len(changes) > 1 and batches and np.diff(changes).min() >= max(batches)
    return tuple(fix for fix in fixes if fix.startswith(SLOWLY) is bool(per_epoch))


def _rises_as_a_cosine(share_S: Floats) -> bool:
    """Return whether a rate rises from almost 0 to its peak, slowly at first.

    A restart jumps, and a triangle is at a quarter of its height after a quarter of the rise.
    """
    top = int(np.argmax(share_S >= BACK_SHARE))
    if share_S[top] < BACK_SHARE or top < LEAST_RISE:
        return False
    rise_S = share_S[: top + 1]
    return bool((np.diff(rise_S) >= 0).all() and rise_S[top // 4] < EARLY_SHARE)


def _named(series: Series) -> str:
    return series.of or "the optimizer"


def _had_settled(window: Window, rate: Series, gone: int) -> bool:
    """Return whether the losses of this optimizer had fallen and stopped when its rate vanished."""
    until = int(rate.steps_S[gone])
    for loss in window.scalars("loss"):
        if loss.optimizers and rate.of not in loss.optimizers:
            continue
        steps_S, values_S = finite_part(loss)
        before = values_S[steps_S <= until]
        third = len(before) // 3
        if third < 5:
            continue
        first, middle, last = before[:third], before[third : 2 * third], before[-third:]
        fell = share_below(last, first) > 0.9
        if fell and share_below(last, middle) < 0.6:
            return True
    return False
