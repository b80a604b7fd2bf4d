"""OPT622: `trainable` was set after `compile`, which has no effect."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.functions import TrainableIgnored
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "OPT622",
    title="trainable set after compile",
    needs=[Need(facts=(TrainableIgnored,))],
    explains=("overtraining", "learning_rate_too_low", "loss_not_decreasing", "overfit"),
)
def trainable_ignored(
    window: Window,
    *,
    share: float = threshold(0.01, unit="of the weights", source="chosen by hand"),
) -> Found | None:
    """`trainable` was set after `compile`, which has no effect.

    What it detects:
        A second `fit` of a Keras model after `layer.trainable` was changed, without another
        `compile`.

    Why it matters:
        Keras reads the trainable weights when it traces the training step, in the first `fit` after
        `compile`. Later changes are ignored: layers that were unfrozen for fine-tuning stay as they
        are, and layers that were frozen are still trained.

    Fires:
        Warning when this concerns more than `share` of the weights of the model.

    Stays quiet:
        If `compile` was called after the change, and for models that run eagerly.

    What to do:
        - Call `model.compile(...)` again after setting `trainable`, with a low learning rate for
          fine-tuning.

    Example:
        base.trainable = True
        model.fit(data)                          # still trains only the head
        base.trainable = True
        model.compile(keras.optimizers.Adam(1e-5), loss)
        model.fit(data)

    References:
        https://keras.io/guides/transfer_learning/
    """
    seen = list(window.seen(TrainableIgnored))
    if not seen and not window.total_steps:
        raise NotEnoughData("no step was recorded")
    for one in seen:
        changed = one.unfrozen + one.frozen
        if changed <= share * one.elements:
            continue
        part = f"{changed / one.elements:.0%} of the weights of {one.model} (limit {share:.0%})"
        if one.unfrozen >= one.frozen:
            message = f"{part} were made trainable after `compile`, and are still not trained"
        else:
            message = f"{part} were frozen after `compile`, and are still trained"
        return Found.of(
            one,
            message,
            layers=one.layers,
            evidence={"share": changed / one.elements, "limit": share},
        )
    return None
