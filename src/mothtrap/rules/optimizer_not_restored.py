"""OPT615: a resumed training has its weights, but not the state of its optimizer."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.workers import OptimizersNotRestored, Resumed
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class OptimizerNotRestored(Rule):
    """A resumed training run restores its weights, but not the state of its optimizer.

    What it detects:
        A restarted job that loaded the weights of an earlier attempt and steps with an optimizer
        that keeps momentum or averages of squares, but has none at the first step.

    Why it matters:
        The first steps of Adam without averages are as long as the learning rate allows in every
        direction. The loss rises after each restart.

    Fires:
        Info when an earlier attempt saved these weights after at least `steps` steps, and an
        optimizer with averages has no state before the first step.

    Stays quiet:
        For optimizers without state (plain SGD). For jobs that start over, or that load weights
        from elsewhere.

    What to do:
        - Save and load the state of the optimizer with the weights:
          `optimizer.load_state_dict(checkpoint["optimizer"])`. Also load the state of the learning
          rate schedule and of the gradient scaler.

    Example:
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])        # was forgotten

    References:
        PyTorch, Saving and loading a general checkpoint,
        https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html
    """

    code = "OPT615"
    title = "state of the optimizer was not restored"
    needs = (Need(facts=(OptimizersNotRestored, Resumed)),)
    explains = ("loss_jump_on_resume", "loss_spike", "gradient_spike", "update_ratio")

    steps: int = threshold(
        20, unit="steps", source=("chosen by hand: averages matter little before that")
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the optimizers of a restarted job."""
        if not any(True for _ in window.seen(Resumed)):
            raise NotApplicable("the job was not restarted")
        for one in window.seen(OptimizersNotRestored):
            if one.step >= self.steps:
                names = " and ".join(dict.fromkeys(one.optimizers))
                return [
                    self.finding(
                        window,
                        severity=Severity.INFO,
                        step=one.step,
                        last_step=one.step,
                        count=1,
                        message=(
                            f"the job loaded the weights of step {one.step}, but not the averages "
                            f"that {names} had built up by then"
                        ),
                        evidence={"steps": one.step, "limit": self.steps},
                    )
                ]
        return []
