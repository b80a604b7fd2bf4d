"""OPT605: an optimizer holds the parameters of a model that is not trained."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.optimizers import IdleOptimizer
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._onset import counted_from


@frozen
class OptimizerWithoutModel(Rule):
    """An optimizer holds the parameters of a model that is not trained.

    What it detects:
        An optimizer that steps while none of its parameters gets a gradient, and parameters of the
        same shapes that get gradients but are in no optimizer. The model was created again, copied
        or loaded after the optimizer.

    Why it matters:
        The optimizer's steps change nothing. The model in use keeps its initial values.

    Fires:
        Error after `own_steps` consecutive steps of the optimizer without a gradient, when a
        parameter of the same shape has a gradient but is in no optimizer.

    Stays quiet:
        Optimizers that step before their first backward pass, that take turns, or whose parameters
        get zero gradients.

    What to do:
        - Create the optimizer after the model is complete: after the last `model = ...`,
          `copy.deepcopy`, `torch.load` or change of layers.
        - Load weights into the model with `load_state_dict` instead of replacing the model.

    Example:
        optimizer = torch.optim.Adam(model.parameters())
        model = Net()                 # the optimizer still holds the old one

    References:
        https://docs.pytorch.org/docs/stable/optim.html#constructing-it
    """

    code = "OPT605"
    needs = (Need(facts=(IdleOptimizer,)),)
    explains = (
        *UNLEARNED,
        "constant_output",
        "learning_rate_too_low",
        "parameter_without_optimizer",
        "step_without_backward",
        "unchanged_tensor",
        "update_ratio",
    )

    own_steps: int = threshold(
        5,
        unit="consecutive steps of the optimizer",
        source="chosen by hand: a step or two may come before the first backward pass",
    )

    def check(self, window: Window) -> list[Finding]:
        """Report optimizers whose parameters never receive a gradient."""
        if window.total_steps < self.own_steps:
            raise NotEnoughData(f"needs {self.own_steps} steps, saw {window.total_steps}")
        newest = {seen.optimizer: seen for seen in window.seen(IdleOptimizer)}
        idle = [s for s in newest.values() if s.own_steps >= self.own_steps and s.twins]
        return [self._finding(window, seen) for seen in idle[:1]]

    def _finding(self, window: Window, seen: IdleOptimizer) -> Finding:
        more = f" and {seen.twins - 1} more of the same shapes have gradients, but are"
        others = seen.twin + (more if seen.twins > 1 else " has a gradient, but is")
        return self.finding(
            window,
            severity=Severity.ERROR,
            step=counted_from(seen.step, seen.own_steps, seen.since),
            last_step=seen.step,
            count=seen.own_steps,
            layers=(seen.twin,),
            message=(
                f"{seen.optimizer} has stepped {seen.own_steps} times, but none of its "
                f"{seen.parameters} parameters has a gradient; {others} in no optimizer: the "
                "optimizer holds the parameters of another model"
            ),
            evidence={
                "optimizer": seen.optimizer,
                "own_steps": seen.own_steps,
                "limit": self.own_steps,
                "parameters": seen.parameters,
                "twins": seen.twins,
            },
            location=seen.location,
        )
