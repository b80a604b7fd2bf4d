"""OPT605: an optimizer holds the parameters of a model that is not trained."""

from __future__ import annotations

from mothtrap.core.facts.optimizers import IdleOptimizer
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._onset import counted_from


@rule(
    "OPT605",
    severity="error",
    needs=[Need(facts=(IdleOptimizer,))],
    explains=(
        *UNLEARNED,
        "constant_output",
        "learning_rate_too_low",
        "parameter_without_optimizer",
        "step_without_backward",
        "unchanged_tensor",
        "update_ratio",
    ),
)
def optimizer_without_model(
    window: Window,
    *,
    own_steps: int = threshold(
        5,
        unit="consecutive steps of the optimizer",
        source="chosen by hand: a step or two may come before the first backward pass",
    ),
) -> Found | None:
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
        - PyTorch: Create the optimizer after the model is complete: after the last `model = ...`,
          `copy.deepcopy`, `torch.load` or change of layers.
        - PyTorch: Load weights into the model with `load_state_dict` instead of replacing the
          model.

    Example:
        optimizer = torch.optim.Adam(model.parameters())
        model = Net()                 # the optimizer still holds the old one

    References:
        https://docs.pytorch.org/docs/stable/optim.html#constructing-it
    """
    for one in window.latest(IdleOptimizer, by="optimizer", steps=own_steps):
        if one.own_steps < own_steps or not one.twins:
            continue
        more = f" and {one.twins - 1} more of the same shapes have gradients, but are"
        others = one.twin + (more if one.twins > 1 else " has a gradient, but is")
        return Found.of(
            one,
            f"{one.optimizer} has stepped {one.own_steps} times, but none of its {one.parameters} "
            f"parameters has a gradient; {others} in no optimizer: the optimizer holds the "
            "parameters of another model",
            step=counted_from(one.step, one.own_steps, one.since),
            count=one.own_steps,
            layers=(one.twin,),
            evidence={
                "optimizer": one.optimizer,
                "own_steps": one.own_steps,
                "limit": own_steps,
                "parameters": one.parameters,
                "twins": one.twins,
            },
        )
    return None
