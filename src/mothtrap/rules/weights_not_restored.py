"""RUN912: a resumed training has the state of its optimizer, but not its weights."""

from __future__ import annotations

from mothtrap.core.facts.workers import Resumed, WeightsNotRestored
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._restarts import lost_on_restart


@rule(
    "RUN912",
    title="weights were not restored",
    needs=[Need(facts=(WeightsNotRestored, Resumed))],
    explains=("loss_jump_on_resume", "loss_spike", "gradient_spike", "update_ratio"),
)
def weights_not_restored(
    window: Window,
    *,
    steps: int = threshold(20, unit="steps", source="chosen by hand: little is lost before that"),
) -> Found | None:
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
        - PyTorch: Load the weights before the first step:
          `model.load_state_dict(checkpoint["model"])`.
        - Keras: Load the weights before `fit`: `model.load_weights(path)`.
        - JAX: Load the weights, and pass them to the first step.

    Example:
        optimizer.load_state_dict(checkpoint["optimizer"])
        model.load_state_dict(checkpoint["model"])        # was forgotten

    References:
        PyTorch, Saving and loading a general checkpoint,
        https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html
    """
    lost = lost_on_restart(window, WeightsNotRestored, steps)
    if lost is None:
        return None
    one, names = lost
    return Found.of(
        one,
        f"the job continues at step {one.step} with the averages of {names}, but it has loaded no "
        "weights into the model",
        severity="warning" if one.untouched else "info",
        evidence={"steps": one.step, "limit": steps},
    )
