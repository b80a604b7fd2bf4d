"""STR718: a loss of logits gets probabilities, and the framework corrects this."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import chosen_at, train_calls


@rule("STR718", title="probabilities as logits", needs=[Need(facts=(LossCall,))])
def probabilities_as_logits(window: Window) -> Found | None:
    """A loss that expects logits gets probabilities, and the framework corrects this.

    What it detects:
        A softmax or sigmoid right before a loss with `from_logits=True`. The framework notices the
        contradiction and computes the loss from the input of the softmax.

    Why it matters:
        Training is correct only because the framework corrects the mistake. With another backend,
        in half precision, or with any operation between the softmax and the loss, the softmax is
        applied twice, and the model hardly learns.

    Fires:
        Warning at the first step whose loss is computed from the input of the softmax or sigmoid.

    Stays quiet:
        When the softmax is applied twice: softmax_before_cross_entropy and
        sigmoid_before_bce_with_logits report that.

    What to do:
        - Remove the activation of the last layer, and keep `from_logits=True`.
        - Or keep the activation, and remove `from_logits=True` from the loss.

    Example:
        Dense(10, activation="softmax"), SparseCategoricalCrossentropy(from_logits=True)
        Dense(10), SparseCategoricalCrossentropy(from_logits=True)

    References:
        https://keras.io/api/losses/probabilistic_losses/#sparsecategoricalcrossentropy-class
    """
    calls = train_calls(window)
    if not any(call.predicts_probabilities is not None for call in calls):
        raise NotApplicable("no loss declares whether it expects logits or probabilities")
    taken_back = [call for call in calls if call.taken_back]
    if not taken_back:
        return None
    first = taken_back[0]
    return Found.of(
        taken_back,
        f"{first.taken_back} goes into {first.function} with `from_logits=True`: here, the "
        f"framework uses the input of the {first.taken_back} instead, but it cannot always do this",
        evidence={"function": first.function, "taken_back": first.taken_back},
        location=chosen_at(first),
    )
