"""STR702: two sigmoids are applied between the model's scores and a binary loss."""

from __future__ import annotations

from collections import defaultdict

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import chosen_at, fixes_of_raw_loss, made_at

LOSS = "binary_cross_entropy_with_logits"
OF_PROBABILITIES = "binary_cross_entropy"
TRANSPARENT = ("view", "cast", "expand")
"""Operations that change no value."""
MESSAGES = {
    LOSS: "sigmoid goes into binary cross-entropy with logits, which applies a sigmoid itself",
    OF_PROBABILITIES: "sigmoid is applied twice before binary cross-entropy",
}
WHY_IN_EVALUATION = (
    "Training is right, but the evaluation loss stays far above the training loss, whatever the "
    "model predicts. Schedules, early stopping, and the choice of the best weights use this number."
)
ONE_IS_ENOUGH = ("Remove one of the two sigmoids, either in the model or in the line of the loss.",)


@rule(
    "STR702",
    title="sigmoid before BCE with logits",
    severity="error",
    needs=[Need(facts=(LossCall,))],
    explains=("cannot_overfit", "loss_not_decreasing", "stuck_at_chance"),
)
def sigmoid_before_bce_with_logits(
    window: Window,
    *,
    calls: int = threshold(4, unit="calls from one line of an evaluation", source="chosen by hand"),
    span: float = threshold(
        3.0, unit="times the range 0 to 1", source="chosen by hand: evaluations are less extreme"
    ),
) -> Found | None:
    """Two sigmoids are applied between the model's scores and a binary loss.

    What it detects:
        A sigmoid whose output, with only views and casts in between, goes into binary cross-entropy
        with logits, which applies a sigmoid itself. Or a sigmoid that goes into another sigmoid
        before binary cross-entropy of probabilities.

    Why it matters:
        The first sigmoid outputs 0..1, and the second maps that to 0.5..0.73: the model can never
        predict the negative class. Gradients shrink to a quarter or less, and the loss stays far
        from 0 even if every prediction is right.

    Fires:
        Error at the first step in which the graph of the loss contains two sigmoids. Without a
        graph, as in evaluation: error when all predictions of a binary loss of logits lie between 0
        and 1 in `calls` calls from one line, although those of training reach below 0 and span
        `span` times that range.

    Stays quiet:
        Values of a training loss that only happen to lie between 0 and 1: only the graph counts. A
        sigmoid with a
        scale or an offset between it and the loss.

    What to do:
        - PyTorch: Remove the sigmoid from the model and keep the loss, which expects logits; apply
          a sigmoid only where you need probabilities.
        - Keras: Remove `activation="sigmoid"` from the last layer, or pass `from_logits=False` (the
          default) to the loss.
        - JAX: Remove the sigmoid from the model: pass the logits to
          `optax.sigmoid_binary_cross_entropy`, and apply a sigmoid only where you need
          probabilities.
        - PyTorch: Or keep one sigmoid and use `binary_cross_entropy`, which is less stable.
        - PyTorch: In evaluation, pass the logits to the loss, as in training, and the probabilities
          only to metrics.

    Example:
        loss = F.binary_cross_entropy_with_logits(torch.sigmoid(model(x)), y)  # twice
        loss = F.binary_cross_entropy_with_logits(model(x), y)

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html
    """
    every = list(window.seen(LossCall))
    if not every:
        raise NotEnoughData("no loss was traced to its operation")
    binary = [call for call in every if call.operation in (LOSS, OF_PROBABILITIES)]
    if not binary:
        raise NotApplicable("no binary cross-entropy was recorded")
    twice = sorted(filter(_has_two_sigmoids, binary), key=lambda call: call.step)
    if not twice:
        return _in_evaluation(binary, calls, span)
    first = twice[0]
    return Found.of(
        twice,
        MESSAGES[first.operation] + made_at(first, "sigmoid"),
        evidence={"chain": " <- ".join((first.operation, *first.chain))},
        fixes=fixes_of_raw_loss(first, "sigmoid")
        or ((0, 1, 2, 3) if first.operation == LOSS else ONE_IS_ENOUGH),
        location=chosen_at(first),
        mode=first.mode.value,
    )


def _in_evaluation(binary: list[LossCall], least: int, span: float) -> Found | None:
    """Report an evaluation that passes probabilities to a loss that gets logits in training."""
    ranges = [
        (call.predicted_least, call.predicted_greatest)
        for call in binary
        if call.mode is Mode.TRAIN and call.operation == LOSS
    ]
    trained = [(low, high) for low, high in ranges if low is not None and high is not None]
    if not trained or trained[-1][0] >= 0 or trained[-1][1] - trained[-1][0] < span:
        return None
    by_line: dict[str | None, list[LossCall]] = defaultdict(list)
    for call in binary:
        if call.mode is Mode.EVAL and call.predicted_least is not None:
            by_line[call.location].append(call)
    for same in by_line.values():
        if len(same) < least or not all(map(_are_probabilities, same)):
            continue
        low, high = trained[-1]
        lows = [call.predicted_least or 0.0 for call in same]
        highs = [call.predicted_greatest or 0.0 for call in same]
        return Found.of(
            same,
            f"in evaluation, sigmoid goes into {LOSS}, which applies a sigmoid itself: its "
            f"predictions lie between {min(lows):.3g} and {max(highs):.3g} in all {len(same)} "
            f"inspected calls, but between {low:.3g} and {high:.3g} in training",
            evidence={"recognized_by": "values", "calls": len(same), "limit": least},
            mode=Mode.EVAL.value,
            fixes=(4, 0),
            title="sigmoid twice in evaluation",
            why=WHY_IN_EVALUATION,
        )
    return None


def _are_probabilities(call: LossCall) -> bool:
    low, high = call.predicted_least, call.predicted_greatest
    return low is not None and high is not None and 0 <= low < high <= 1


def _has_two_sigmoids(call: LossCall) -> bool:
    """Return whether a sigmoid in or before the loss receives the output of another sigmoid."""
    values = [name for name in call.chain if name not in TRANSPARENT]
    needed = 1 if call.operation == LOSS else 2
    return values[:needed] == ["sigmoid"] * needed
