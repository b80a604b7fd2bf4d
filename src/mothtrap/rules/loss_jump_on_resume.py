"""RUN911: the loss jumps when a restarted job continues."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.workers import OptimizersNotRestored, Resumed
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Series, Window
from mothtrap.rules._restarts import first_values


@frozen
class LossJumpOnResume(Rule):
    """The loss jumps when a job resumes.

    What it detects:
        A restarted job whose first losses are all higher than the last losses of the previous
        attempt.

    Why it matters:
        A job that resumes from its checkpoint should continue at the previous loss. A jump shows
        that something was not restored: the weights, the optimizer, the learning rate, or the
        preparation of the data.

    Fires:
        Info when each of the first `first` losses is above each of the last `last` losses before
        the restart, their median is at least `ratio` times as high, and the jump exceeds `spread`
        times the range of the losses before the restart.

    Stays quiet:
        For jobs that start over from step 0, and for losses that vary by as much as the jump.

    What to do:
        - No saved weights were loaded. Load them before the first step, and check the path of the
          checkpoint.
        - If the saved weights are loaded, also load the state of the optimizer and of the learning
          rate schedule.
        - If the saved weights are loaded, check that both attempts prepare the data in the same
          way (statistics for normalization, vocabulary, order of the classes).

    Example:
        model = Net()                                             # was not loaded
        model.load_state_dict(torch.load("last.pt")["model"])

    References:
        PyTorch, Saving and loading a general checkpoint,
        https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html
    """

    code = "RUN911"
    needs = (
        Need(facts=(Resumed,), scalars=("loss",)),
        Need(facts=(OptimizersNotRestored,), optional=True),
    )
    proof = Proof(title="Loss", scalars=("loss",), reference=("before",))
    explains = ("loss_spike", "gradient_spike", "loss_diverging", "overtraining")

    first: int = threshold(4, unit="losses after", source="chosen by hand")
    last: int = threshold(8, unit="losses before", source="chosen by hand")
    ratio: float = threshold(1.5, unit="times as high", source="chosen by hand")
    spread: float = threshold(1.0, unit="of the earlier range", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Compare each loss of the attempt with the last values of the previous attempt."""
        resumed = [one for one in window.seen(Resumed) if one.step and one.losses]
        if not resumed:
            raise NotApplicable("the job does not continue an earlier attempt")
        last = resumed[-1]
        compared = False
        for series in window.scalars("loss"):
            before_N = np.array(last.losses.get(series.of, ()), np.float64)
            before_N = before_N[np.isfinite(before_N)]
            after_N = first_values(series, last.step, self.first)
            if len(before_N) < self.last or len(after_N) < self.first:
                continue
            compared = True
            if self._jumps(before_N[-self.last :], after_N):
                return [self._finding(window, last, series, before_N, after_N)]
        if not compared:
            raise NotEnoughData(
                f"needs {self.last} losses before the restart, and {self.first} after it"
            )
        return []

    def _jumps(self, before_N: Floats, after_N: Floats) -> bool:
        low, high = float(before_N.min()), float(before_N.max())
        if not np.isfinite(after_N).all() or float(after_N.min()) <= high or low <= 0:
            return False
        before, after = float(np.median(before_N)), float(np.median(after_N))
        return after >= self.ratio * before and after - high > self.spread * (high - low)

    def _finding(
        self, window: Window, resumed: Resumed, series: Series, before_N: Floats, after_N: Floats
    ) -> Finding:
        before, after = float(np.median(before_N[-self.last :])), float(np.median(after_N))
        not_loaded, optimizer, data = self.fixes(window)
        fixes = (optimizer, data) if resumed.loaded else (not_loaded, optimizer, data)
        if resumed.loaded and not any(True for _ in window.seen(OptimizersNotRestored)):
            fixes = (data, optimizer)
        return self.finding(
            window,
            severity=Severity.INFO,
            step=resumed.step,
            last_step=resumed.step + self.first - 1,
            count=self.first,
            message=(
                f"the job continues at step {resumed.step} with a loss of {after:.3g}, but the "
                f"previous attempt had reached {before:.3g}"
            ),
            evidence={"before": before, "after": after, "limit": self.ratio * before},
            location=series.location,
            fixes=fixes,
        )
