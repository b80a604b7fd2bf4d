"""OPT615: a resumed training has its weights, but not the state of its optimizer."""

from __future__ import annotations

from mothtrap.core.facts.workers import OptimizersNotRestored, Resumed
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._restarts import lost_on_restart


@rule(
    "OPT615",
    title="state of the optimizer was not restored",
    severity="info",
    needs=[Need(facts=(OptimizersNotRestored, Resumed))],
    explains=("loss_jump_on_resume", "loss_spike", "gradient_spike", "update_ratio"),
)
def optimizer_not_restored(
    window: Window,
    *,
    steps: int = threshold(
        20, unit="steps", source=("chosen by hand: averages matter little before that")
    ),
) -> Found | None:
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
    lost = lost_on_restart(window, OptimizersNotRestored, steps)
    if lost is None:
        return None
    one, names = lost
    return Found.of(
        one,
        f"the job loaded the weights of step {one.step}, but not the averages that {names} had "
        "built up by then",
        evidence={"steps": one.step, "limit": steps},
    )
