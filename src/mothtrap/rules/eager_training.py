"""RUN905: a model trains eagerly instead of compiled."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class EagerTraining(Rule):
    """A model trains eagerly instead of compiled.

    What it detects:
        `run_eagerly=True` or `tf.config.run_functions_eagerly(True)` in a long training run.

    Why it matters:
        Python calls every operation, so steps of small models take several times as long. Eager
        training is useful only for debugging.

    Fires:
        Warning after `steps` steps.

    Stays quiet:
        For short runs and for training loops without `tf.function`.

    What to do:
        - Leave out `run_eagerly=True` in `compile`.
        - Remove `tf.config.run_functions_eagerly(True)`.

    Example:
        model.compile("adam", "mse", run_eagerly=True)     # left on after debugging
        model.compile("adam", "mse")

    References:
        https://keras.io/api/models/model_training_apis/
    """

    code = "RUN905"
    needs = (Need(facts=(ModelCompiled,)),)

    steps: int = threshold(200, unit="steps", source="chosen by hand: longer than a test run")

    def check(self, window: Window) -> list[Finding]:
        """Check how every model runs."""
        seen = list(window.seen(ModelCompiled))
        if not seen:
            raise NotEnoughData("no model was compiled")
        newest = {one.model: one for one in seen}
        if window.total_steps < self.steps:
            raise NotEnoughData(f"needs {self.steps} steps, saw {window.total_steps}")
        slow = [one for one in newest.values() if one.runs_eagerly or one.whole_process]
        return [self._finding(window, one) for one in slow[:1]]

    def _finding(self, window: Window, one: ModelCompiled) -> Finding:
        what = "run_functions_eagerly(True)" if one.whole_process else "run_eagerly=True"
        fixes = self.fixes(window)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.step,
            last_step=window.last_step,
            message=f"{one.model} ({one.model_type}) has trained eagerly, with {what}, for "
            f"{window.total_steps} steps (limit {self.steps})",
            evidence={"steps": window.total_steps, "limit": self.steps},
            location=one.location,
            fixes=fixes[1:] if one.whole_process else fixes[:1],
        )
