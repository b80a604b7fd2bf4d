"""STR721: a loss gets its prediction and its target in the wrong order."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window
from mothtrap.rules._effects import NOT_FINITE, UNLEARNED
from mothtrap.rules._loss_calls import class_calls, train_calls


@rule(
    "STR721",
    title="loss arguments swapped",
    severity="error",
    needs=[Need(facts=(LossCall,))],
    explains=(
        *NOT_FINITE,
        *UNLEARNED,
        "activation_growth",
        "constant_output",
        "exploding_gradient",
        "label_out_of_range",
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
        "wrong_sign",
    ),
)
def loss_arguments_swapped(window: Window) -> Found | None:
    """A loss gets its prediction and its target in the wrong order.

    What it detects:
        A cross-entropy or divergence whose target is the model's output and whose prediction is
        not.

    Why it matters:
        Keras losses take the target first, PyTorch losses the prediction. With swapped arguments
        a cross-entropy takes the logarithm of the labels, clipped near 0. Its gradient is then
        constant, and the model becomes confident without learning the classes.

    Fires:
        Error at the first such call.

    Stays quiet:
        For symmetric losses such as squared errors, and for losses between two models
        (distillation) whose values fit their arguments.

    What to do:
        - PyTorch: Give the loss the prediction first: `F.cross_entropy(model(x), labels)`. `kl_div`
          takes log-probabilities, then the probabilities of the target.
        - JAX: Give the loss the prediction first:
          `optax.softmax_cross_entropy(logits=model(x), labels=labels)`.
        - Keras: Give the loss the target first: `loss_function(labels, model(x))`. Functions of
          `tf.nn` are clearer with names: `labels=labels, logits=model(x)`.

    Example:
        loss = bce(model(x, training=True), labels)
        loss = bce(labels, model(x, training=True))

    References:
        https://keras.io/api/losses/
    """
    calls = [call for call in train_calls(window) if call.operation == "kl_div"]
    calls = [call for call in calls if call.swapped] or class_calls(window)
    if all(call.function == "" for call in calls):
        raise NotApplicable("the argument order of this loss is unknown")
    swapped = [call for call in calls if call.swapped]
    if not swapped:
        return None
    function = swapped[0].function
    return Found.of(
        swapped,
        f"{function} is given the prediction as its target, and the labels as its prediction",
        evidence={"function": function},
    )
