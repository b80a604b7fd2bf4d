"""DAT520: predictions and targets of reinforcement learning come from equal states."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets, EqualStates
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@frozen
class EqualStatesOfStep(Rule):
    """The next state always equals the state.

    What it detects:
        Targets that the model, or a copy such as a target network, computes from inputs that
        always equal the inputs of the prediction, although they are in a different tensor. In
        reinforcement learning, these inputs are the state and the next state.

    Why it matters:
        The model never sees what an action leads to. It learns the reward of a single step.

    Fires:
        Info when both inputs are equal in each of the first `steps` steps that have both, and the
        data differ between steps.

    Stays quiet:
        For a teacher that gets the same tensor as its student. For data on an accelerator, where
        each call may make a copy. For integer data such as tokens.

    What to do:
        - Store a copy of the state before the environment steps: `state.copy()`. Many environments
          change one array and return it again.
        - Check that the batch takes the next state from its own field.

    Example:
        after, reward, *_ = env.step(action)       # `after` is `state`, changed in place
        memory.append((state, action, reward, after))

    References:
        Gymnasium, Env.step, https://gymnasium.farama.org/api/env/#gymnasium.Env.step
    """

    code = "DAT520"
    title = "next state equals the state"
    needs = (Need(facts=(EqualStates, BootstrappedTargets)),)
    explains = ("loss_not_decreasing", "constant_output", "repeated_batch")

    steps: int = threshold(8, unit="steps", source="chosen by hand: an agent may stand still")

    def check(self, window: Window) -> list[Finding]:
        """Check whether states were equal."""
        if window.total_steps < self.steps:
            raise NotEnoughData(f"needs {self.steps} steps, saw {window.total_steps}")
        seen = [one for one in window.seen(EqualStates) if one.steps >= self.steps]
        return [self._finding(window, one) for one in seen[:1]]

    def _finding(self, window: Window, one: EqualStates) -> Finding:
        return self.finding(
            window,
            severity=Severity.INFO,
            step=max(0, one.step - one.steps + 1),
            last_step=one.step,
            count=one.steps,
            message=(
                f"the targets were computed from the same values as the predictions in {one.steps} "
                f"of {one.steps} steps (limit {self.steps}): the next state equals the state"
            ),
            evidence={"steps": one.steps, "limit": self.steps},
            location=one.location,
        )
