"""RUN905: a model trains eagerly instead of compiled."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule("RUN905", needs=[Need(facts=(ModelCompiled,))])
def eager_training(
    window: Window,
    *,
    steps: int = threshold(200, unit="steps", source="chosen by hand: longer than a test run"),
) -> Found | None:
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
    newest = window.latest(ModelCompiled, by="model", steps=0)
    if not newest:
        raise NotEnoughData("no model was compiled")
    if window.total_steps < steps:
        raise NotEnoughData(f"needs {steps} steps, saw {window.total_steps}")
    for one in newest:
        if one.runs_eagerly or one.whole_process:
            what = "run_functions_eagerly(True)" if one.whole_process else "run_eagerly=True"
            return Found.of(
                one,
                f"{one.model} ({one.model_type}) has trained eagerly, with {what}, for "
                f"{window.total_steps} steps (limit {steps})",
                last_step=window.last_step,
                evidence={"steps": window.total_steps, "limit": steps},
                fixes=(1,) if one.whole_process else (0,),
            )
    return None
