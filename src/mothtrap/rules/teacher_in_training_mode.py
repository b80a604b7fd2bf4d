"""STR727: a teacher runs in training mode."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.evaluations import TeacherMode
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class TeacherInTrainingMode(Rule):
    """A teacher runs in training mode.

    What it detects:
        A model that no optimizer holds, or that is frozen. It receives the data of the trained
        model in each step, and is in training mode, although it has dropout or batch norms.

    Why it matters:
        Dropout switches off units of the teacher at random, so the student learns answers that the
        teacher would never give. Batch norms normalize by the batch, and change their averages with
        each step.

    Fires:
        Warning if dropout is active in each of the first `steps` inspected steps. Info if only
        batch norms are.

    Stays quiet:
        Copies of the trained model, such as a target network or the mean teacher, because noise is
        intended there. Models whose forward passes get other data.

    What to do:
        - Call `teacher.eval()` once before training.
        - If the teacher is a part of another module, `train()` of this module also changes the
          teacher: call `teacher.eval()` after it.

    Example:
        student.train(); teacher.train()
        student.train(); teacher.eval()

    References:
        Hinton et al. 2015, Distilling the knowledge in a neural network,
        https://arxiv.org/abs/1503.02531
    """

    code = "STR727"
    title = "teacher in training mode"
    needs = (Need(facts=(TeacherMode,)),)
    explains = ("loss_not_decreasing", "loss_oscillating", "metric_contradicts_loss")

    steps: int = threshold(8, unit="steps", source="chosen by hand: the mode rarely changes")

    def check(self, window: Window) -> list[Finding]:
        """Check the mode of the teacher."""
        if window.total_steps < self.steps:
            raise NotEnoughData(f"needs {self.steps} steps, saw {window.total_steps}")
        seen = [one for one in window.seen(TeacherMode) if one.steps >= self.steps]
        return [self._finding(window, one) for one in seen[:1]]

    def _finding(self, window: Window, one: TeacherMode) -> Finding:
        active = [
            f"{kind} ({', '.join(paths[:3])})"
            for kind, paths in (("dropout", one.dropouts), ("batch norm", one.norms))
            if paths
        ]
        return self.finding(
            window,
            severity=Severity.WARNING if one.dropouts else Severity.INFO,
            step=max(0, one.step - one.steps + 1),
            last_step=window.last_step,
            count=one.steps,
            layers=(one.module, *one.dropouts, *one.norms),
            message=(
                f"{one.module_type} is not trained, gets the data of the trained model, and ran in "
                f"training mode in {one.steps} of {one.steps} inspected steps (limit {self.steps}):"
                f" {' and '.join(active)} active"
            ),
            evidence={
                "steps": one.steps,
                "limit": self.steps,
                "dropouts": list(one.dropouts),
                "norms": list(one.norms),
            },
            location=one.location,
        )
