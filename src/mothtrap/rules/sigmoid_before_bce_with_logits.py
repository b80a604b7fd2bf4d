"""STR702: two sigmoids stand between the scores of the model and a binary loss."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import chosen_at, made_at

LOSS = "binary_cross_entropy_with_logits"
OF_PROBABILITIES = "binary_cross_entropy"
TRANSPARENT = ("view", "cast", "expand")
"""Operations that change no value."""
MESSAGES = {
    LOSS: "sigmoid goes into binary cross-entropy with logits, which applies a sigmoid itself",
    OF_PROBABILITIES: "sigmoid is applied twice before binary cross-entropy",
}
ONE_IS_ENOUGH = (
    "Remove one of the two sigmoids: that of the model, or that in the line of the loss.",
)


@dataclass(frozen=True)
class SigmoidBeforeBceWithLogits(Rule):
    """Two sigmoids stand between the scores of the model and a binary loss.

    What it detects:
        A sigmoid whose output, with nothing but views and casts between, goes into
        binary cross-entropy with logits, which applies a sigmoid itself; or into another
        sigmoid before binary cross-entropy of probabilities.

    Why it matters:
        The first sigmoid gives 0..1, the second makes 0.5..0.73 of it: the model can
        never say no. Gradients shrink to a quarter or less, and the loss cannot come
        near 0 even when every prediction is right.

    Fires:
        Error when the graph under the loss shows it, at the first step.

    Stays quiet:
        Values that only happen to lie between 0 and 1: nothing but the graph decides.
        A sigmoid with a scale or an offset between it and the loss.

    What to do:
        - PyTorch: Remove the sigmoid from the model and keep the loss, which expects logits;
          apply a sigmoid only where probabilities are shown.
        - Keras: Remove `activation="sigmoid"` from the last layer, or give the loss
          `from_logits=False`, its default.
        - JAX: Remove the sigmoid from the model: give the logits to
          `optax.sigmoid_binary_cross_entropy`, and apply a sigmoid only where probabilities
          are shown.
        - PyTorch: Or keep one sigmoid and use `binary_cross_entropy`, which is less stable.

    Example:
        loss = F.binary_cross_entropy_with_logits(torch.sigmoid(model(x)), y)  # twice
        loss = F.binary_cross_entropy_with_logits(model(x), y)

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html
    """

    code = "STR702"
    title = "sigmoid before BCE with logits"
    needs = (Need(facts=(LossCall,)),)
    explains = ("cannot_overfit", "loss_not_decreasing", "stuck_at_chance")

    def check(self, window: Window) -> list[Finding]:
        """Look at the operations under every binary loss."""
        every = list(window.seen(LossCall))
        if not every:
            raise NotEnoughData("no loss was traced to its operation")
        calls = [call for call in every if call.operation in (LOSS, OF_PROBABILITIES)]
        if not calls:
            raise NotApplicable("no binary cross-entropy was seen")
        twice = [call for call in calls if _has_two_sigmoids(call)]
        if not twice:
            return []
        first = min(twice, key=lambda call: call.step)
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=first.step,
                last_step=max(call.step for call in twice),
                count=len({call.step for call in twice}),
                message=MESSAGES[first.operation] + made_at(first, "sigmoid"),
                evidence={"chain": " <- ".join((first.operation, *first.chain))},
                fixes=None if first.operation == LOSS else ONE_IS_ENOUGH,
                location=chosen_at(first),
                mode=first.mode.value,
            )
        ]


def _has_two_sigmoids(call: LossCall) -> bool:
    """Return whether a sigmoid, the loss's own or the one before it, receives another's output."""
    values = [name for name in call.chain if name not in TRANSPARENT]
    needed = 1 if call.operation == LOSS else 2
    return values[:needed] == ["sigmoid"] * needed
