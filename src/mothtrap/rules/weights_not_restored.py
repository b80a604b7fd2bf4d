"""RUN912: a resumed training has the state of its optimizer, but not its weights."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.workers import Resumed, WeightsNotRestored
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class WeightsAreNotRestored(Rule):
    """A resumed training run restores the state of its optimizer, but not its weights.

    What it detects:
        A restarted job whose optimizer has averages before the first step, although no
        `load_state_dict` of a module was called and the weights equal no saved state.

    Why it matters:
        The training begins again with new weights. The averages, the learning rate, and the number
        of epochs belong to the old weights.

    Fires:
        Warning when the job continues after at least `steps` steps and the weights have the
        framework's default initialization. A note when that is not known.

    Stays quiet:
        For jobs that start over, and for jobs that load weights into a module.

    What to do:
        - Load the weights before the first step: `model.load_state_dict(checkpoint["model"])`.

    Example:
        optimizer.load_state_dict(checkpoint["optimizer"])
        model.load_state_dict(checkpoint["model"])        # was forgotten

    References:
        PyTorch, Saving and loading a general checkpoint,
        https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html
    """

    code = "RUN912"
    title = "weights were not restored"
    needs = (Need(facts=(WeightsNotRestored, Resumed)),)
    explains = ("loss_jump_on_resume", "loss_spike", "gradient_spike", "update_ratio")

    steps: int = threshold(20, unit="steps", source="chosen by hand: little is lost before that")

    def check(self, window: Window) -> list[Finding]:
        """Check the weights of a restarted job."""
        if not any(True for _ in window.seen(Resumed)):
            raise NotApplicable("the job was not restarted")
        for one in window.seen(WeightsNotRestored):
            if one.step >= self.steps:
                names = " and ".join(dict.fromkeys(one.optimizers))
                return [
                    self.finding(
                        window,
                        severity=Severity.WARNING if one.untouched else Severity.INFO,
                        step=one.step,
                        last_step=one.step,
                        count=1,
                        message=(
                            f"the job continues at step {one.step} with the averages of {names}, "
                            "but it has loaded no weights into the model"
                        ),
                        evidence={"steps": one.step, "limit": self.steps},
                    )
                ]
        return []
