"""STR718: a loss of logits is given probabilities, and takes the softmax back."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import chosen_at, finding_of_calls, train_calls


@dataclass(frozen=True)
class ProbabilitiesAsLogits(Rule):
    """A loss is told to expect logits, gets probabilities, and takes the softmax back.

    What it detects:
        A softmax or sigmoid right before a loss with `from_logits=True`, where the framework
        sees the contradiction and computes the loss of what the softmax was given.

    Why it matters:
        This training is right. But what makes it right hangs on a detail: with another backend,
        in half precision, or with anything between the softmax and the loss, the softmax is
        applied twice, and the model hardly learns.

    Fires:
        Warning at the first step whose loss takes the softmax or sigmoid back.

    Stays quiet:
        Where the softmax is in fact applied twice: softmax_before_cross_entropy and
        sigmoid_before_bce_with_logits tell of that.

    What to do:
        - Remove the activation of the last layer, and keep `from_logits=True`.
        - Or keep the activation, and remove `from_logits=True` from the loss.

    Example:
        Dense(10, activation="softmax"), SparseCategoricalCrossentropy(from_logits=True)
        Dense(10), SparseCategoricalCrossentropy(from_logits=True)

    References:
        https://keras.io/api/losses/probabilistic_losses/#sparsecategoricalcrossentropy-class
    """

    code = "STR718"
    title = "probabilities as logits"
    needs = (Need(facts=(LossCall,)),)

    def check(self, window: Window) -> list[Finding]:
        """Look at the losses of training."""
        calls = train_calls(window)
        if not any(call.predicts_probabilities is not None for call in calls):
            raise NotApplicable("no loss says whether it expects logits or probabilities")
        taken_back = [call for call in calls if call.taken_back]
        if not taken_back:
            return []
        first = taken_back[0]
        message = (
            f"{first.taken_back} goes into {first.function}, which is told `from_logits=True`: the "
            f"framework takes the {first.taken_back} back here, but not everywhere"
        )
        return [
            finding_of_calls(
                self,
                window,
                taken_back,
                Severity.WARNING,
                message,
                {"function": first.function, "taken_back": first.taken_back},
                location=chosen_at(first),
            )
        ]
