"""STR728: a copy of the model is the model itself."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.modules import AliasedCopy
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule("STR728", title="copy is the model itself", needs=[Need(facts=(AliasedCopy,))])
def aliased_copy(
    window: Window,
    *,
    steps: int = threshold(8, unit="steps", source="chosen by hand: variables are read early"),
) -> Found | None:
    """A copy of the model is the model itself.

    What it detects:
        Two variables or attributes that refer to the same trained model, although the name of one
        suggests a separate copy: `target`, `ema`, `average`, or `momentum`. Also two models that
        share all their parameters, as after `copy.copy`.

    Why it matters:
        Every training step also changes the target network, so the targets follow each prediction,
        and Q-learning may diverge. A moving average of the weights always equals the weights.

    Fires:
        Warning after `steps` steps if the variables of the running script show this.

    Stays quiet:
        Names in different functions, such as an argument `model` to which `target_model` is passed.
        Models without a parameter in an optimizer.

    What to do:
        - PyTorch: Create a copy with its own weights: `target_net = copy.deepcopy(policy_net)`.
          Then update it at intervals: `target_net.load_state_dict(policy_net.state_dict())`.
        - Or create a second model: `target_net = Net()`.

    Example:
        target_net = policy_net                     # a second name
        target_net = copy.deepcopy(policy_net)

    References:
        Mnih et al. 2015, Human-level control through deep reinforcement learning,
        https://www.nature.com/articles/nature14236
    """
    if window.total_steps < steps:
        raise NotEnoughData(f"needs {steps} steps, saw {window.total_steps}")
    one = next(iter(window.seen(AliasedCopy)), None)
    if one is None:
        return None
    how = (
        f"`{one.copy}` and `{one.model}` share all their parameters"
        if one.shallow
        else f"`{one.copy}` and `{one.model}` are the same model"
    )
    return Found.of(
        one,
        f"{how}: every training step of `{one.model}` also changes `{one.copy}`",
        step=0,
        last_step=window.last_step,
        evidence={"copy": one.copy, "model": one.model, "shallow": one.shallow},
    )
