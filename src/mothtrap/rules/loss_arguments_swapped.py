"""STR721: a loss takes the prediction for the target."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._effects import NOT_FINITE, UNLEARNED
from mothtrap.rules._loss_calls import class_calls, finding_of_calls


@dataclass(frozen=True)
class LossArgumentsSwapped(Rule):
    """A loss takes the prediction for the target.

    What it detects:
        A cross-entropy whose target is computed by the model, and whose prediction is not: its
        arguments are in the wrong order.

    Why it matters:
        Losses of Keras take the target first, those of PyTorch the prediction. With both in the
        wrong place a cross-entropy takes the logarithm of the labels, which is cut off at 0, so
        that its gradient is constant: the model learns to be certain, and hardly what of.

    Fires:
        Error at the first such call.

    Stays quiet:
        Losses that are the same both ways, such as squared errors; losses of two models, as in
        distillation.

    What to do:
        - Give the loss the target first: `loss_function(labels, model(x))`.

    Example:
        loss = bce(model(x, training=True), labels)
        loss = bce(labels, model(x, training=True))

    References:
        https://keras.io/api/losses/
    """

    code = "STR721"
    title = "loss arguments swapped"
    needs = (Need(facts=(LossCall,)),)
    explains = (
        *NOT_FINITE,
        *UNLEARNED,
        "activation_growth",
        "constant_output",
        "exploding_gradient",
        "labels_unrelated",
        "learning_rate_too_high",
        "loss_diverging",
        "loss_mismatch",
        "loss_oscillating",
        "overfit",
        "overtraining",
        "saturated_activation",
        "vanishing_gradient",
        "weight_growth",
        "wrong_initial_loss",
    )

    def check(self, window: Window) -> list[Finding]:
        """Look at the losses of training."""
        calls = class_calls(window)
        if all(call.function == "" for call in calls):
            raise NotApplicable("the order of its arguments is not known of this loss")
        swapped = [call for call in calls if call.swapped]
        if not swapped:
            return []
        return [
            finding_of_calls(
                self,
                window,
                swapped,
                Severity.ERROR,
                f"{swapped[0].function} is given the prediction as its target, and the labels as "
                "its prediction",
                {"function": swapped[0].function},
            )
        ]
