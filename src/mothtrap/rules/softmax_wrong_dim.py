"""STR709: a softmax under a loss runs over the wrong axis."""

from __future__ import annotations

import math

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._loss_calls import by_place, chosen_at, made_at, train_calls

REMOVED = "Remove the softmax from the model: `cross_entropy` applies softmax over the classes."


@frozen
class SoftmaxWrongDim(Rule):
    """The softmax before a loss does not run over the class axis.

    What it detects:
        A softmax or log-softmax whose output goes into a loss, and whose axis has another size than
        the class axis: it runs over the batch or over positions.

    Why it matters:
        The scores of different examples compete with each other, but the classes of one example do
        not. The prediction for an example depends on the rest of the batch. The loss falls a
        little, but the model is useless for single examples.

    Fires:
        Error if the loss takes labels (a negative log-likelihood, a cross-entropy). Warning if the
        loss is elementwise, binary, or written by hand.

    Stays quiet:
        When both axes have the same size, as in contrastive losses over all pairs of a batch. When
        there is any operation in between other than views, casts and logarithms. Softmaxes inside
        the model, as in attention.

    What to do:
        - PyTorch: Apply the softmax over the classes: `dim=1` for scores of shape (examples,
          classes, ...), or `dim=-1`.
        - Keras, JAX: Apply the softmax over the classes: `axis=-1`, its default.
        - PyTorch: Before `cross_entropy`, remove the softmax: `cross_entropy` applies one over the
          classes.
        - Keras, JAX: Before a cross-entropy of logits, remove the softmax: the loss applies one
          over the classes.

    Example:
        loss = F.nll_loss(F.log_softmax(model(x), dim=0), y)     # over the batch
        loss = F.nll_loss(F.log_softmax(model(x), dim=1), y)

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html
    """

    code = "STR709"
    title = "softmax over the wrong axis"
    needs = (Need(facts=(LossCall,)),)
    explains = (
        "batch_mixing",
        *UNLEARNED,
        "constant_output",
        "labels_unrelated",
        "learning_rate_too_low",
        "overfit",
        "overtraining",
        "softmax_before_cross_entropy",
        "train_eval_shift",
        "vanishing_gradient",
        "wrong_initial_loss",
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the axis sizes under every loss."""
        calls = [call for call in train_calls(window) if call.softmax_sizes]
        if not calls:
            raise NotApplicable("no softmax was found before a loss")
        for same in by_place(calls):
            wrong = [call for call in same if _wrong_size(call) is not None]
            if wrong and not any(_is_square(call) for call in same):
                return [self._finding(window, wrong)]
        return []

    def _finding(self, window: Window, calls: list[LossCall]) -> Finding:
        first = calls[0]
        size, expected = _wrong_size(first) or (0, 0)
        labelled = first.operation in ("cross_entropy", "nll") and first.reduction is not None
        return self.finding(
            window,
            severity=Severity.ERROR if labelled else Severity.WARNING,
            step=first.step,
            last_step=calls[-1].step,
            count=len({call.step for call in calls}),
            message=(
                f"the softmax before {first.operation} runs over an axis of size {size}, but the "
                f"class axis has size {expected}: examples compete, classes do not"
                f"{made_at(first, 'softmax')}"
            ),
            evidence={
                "operation": first.operation,
                "size": size,
                "classes": expected,
                "prediction_shape": list(first.prediction_shape or ()),
            },
            location=chosen_at(first),
            # If there are two softmaxes, the loss itself applies one.
            fixes=(REMOVED,) if len(first.softmax_sizes) > 1 else self.fixes(window)[:1],
        )


def _wrong_size(call: LossCall) -> tuple[int, int] | None:
    """Return the sizes of a softmax axis and of the class axis, if they differ."""
    shape = call.prediction_shape or ()
    if call.operation in ("cross_entropy", "nll") and call.reduction is not None:
        expected = call.classes
    else:
        expected = shape[-1] if len(shape) == 2 else None
    if expected is None or expected < 2 or math.prod(shape) == expected:
        return None
    wrong = [size for size in call.softmax_sizes if size != expected]
    return (wrong[0], expected) if wrong else None


def _is_square(call: LossCall) -> bool:
    shape = call.prediction_shape or ()
    return len(shape) == 2 and shape[0] == shape[1]
