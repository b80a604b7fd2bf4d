"""Sampled loss calls and their losses, shared by the rules on the inputs of losses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import EvidenceValue, Finding, Severity
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.window import Floats, Window

POLICY_GAIN = "policy_gain"
CLASS_LOSSES = ("cross_entropy", "nll")
INTEGERS = ("int64", "int32", "int16", "uint8", "int8")
MIN_VOCABULARY = 20
"""With this many classes a model of integers predicts tokens; chosen by hand."""


def train_calls(window: Window) -> list[LossCall]:
    """Return the loss calls of training, oldest first.

    Raises:
        NotEnoughData: None was recorded.
    """
    calls = [call for call in window.seen(LossCall) if call.mode is Mode.TRAIN]
    if not calls:
        raise NotEnoughData("no loss was traced to its operation")
    return calls


def fixes_of_raw_loss(call: LossCall, activation: str) -> tuple[str, ...]:
    """Return the fix for an activation before a loss of `tf.nn`; () for other losses."""
    if not (call.function or "").startswith("tf.nn."):
        return ()
    return (
        f"Pass the logits to `{call.function}`, and apply {activation} only where you need "
        "probabilities.",
    )


def class_calls(window: Window, *, binary: bool = True) -> list[LossCall]:
    """Return the calls of training that are class losses, oldest first.

    Raises:
        NotEnoughData: No loss was recorded.
        NotApplicable: no call is a class loss.
    """
    found = [
        call
        for call in train_calls(window)
        if call.operation in CLASS_LOSSES or (binary and call.operation.startswith("binary"))
    ]
    if not found:
        raise NotApplicable("no class loss was recorded")
    return found


def is_contrastive(call: LossCall) -> bool:
    """Return whether the classes of a loss are the rows of the batch, or all other rows."""
    shape = call.prediction_shape or ()
    if call.operation not in CLASS_LOSSES or len(shape) != 2 or shape[0] <= 2:
        return False
    rows, classes = shape
    return classes in (rows, rows - 1)


def have_partners(calls: Sequence[LossCall]) -> bool:
    """Return whether a contrastive loss identifies the partner of each row among the other rows.

    The labels of a batch are then all different, or all equal.
    """
    counts = [call.label_counts or () for call in calls]
    fits = all(max(one, default=2) == 1 or sum(map(bool, one)) == 1 for one in counts)
    return bool(calls) and all(map(is_contrastive, calls)) and fits


def targets_move(window: Window) -> bool:
    """Return whether the model learns from its own output.

    True for targets that the model or a copy of it computes, and for rewards of actions that
    the model chooses. Such a loss may rise while the model learns, and targets may drift.
    """
    gains = any(call.operation == POLICY_GAIN for call in window.seen(LossCall))
    return gains or any(True for _ in window.seen(BootstrappedTargets))


def by_place(calls: Iterable[LossCall]) -> list[list[LossCall]]:
    """Group calls by line, operation, and series."""
    found: dict[tuple[object, ...], list[LossCall]] = defaultdict(list)
    for call in calls:
        found[call.location, call.operation, call.series].append(call)
    return list(found.values())


def predicts_tokens(call: LossCall) -> bool:
    """Return whether the classes are tokens: the model reads integers and has many classes."""
    return (call.classes or 0) >= MIN_VOCABULARY and any(t in INTEGERS for t in call.model_inputs)


def is_classifier(call: LossCall) -> bool:
    """Return whether every example of a batch has one label.

    False for tokens, tags, pixels, and multi-label targets.
    """
    shape = call.prediction_shape or ()
    sample = call.targets
    if sample is not None and (sample.by_position or sample.input_offsets is not None):
        return False
    if predicts_tokens(call):
        return False
    if call.operation.startswith("binary"):
        return len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
    return len(shape) == 2


def label_counts(calls: Iterable[LossCall]) -> Floats:
    """Return labels per class over all calls, shape (classes,).

    Raises:
        NotEnoughData: No labels were recorded.
    """
    sampled = [call.label_counts for call in calls if call.label_counts]
    if not sampled:
        raise NotEnoughData("no labels of this loss were recorded")
    total_K = np.zeros(max(len(counts) for counts in sampled))
    for counts in sampled:
        total_K[: len(counts)] += counts
    return total_K


def entropy(counts_K: Floats) -> float:
    """Return the entropy of label frequencies in nats: the loss of the best constant guess."""
    share_K = counts_K[counts_K > 0] / max(1.0, float(counts_K.sum()))
    return float(-(share_K * np.log(share_K)).sum()) + 0.0


def losses_at(window: Window, calls: Iterable[LossCall]) -> Floats:
    """Return the losses of the steps of the given calls, if the window contains them."""
    wanted = {(call.series, call.step) for call in calls}
    return np.array(
        [
            value
            for series in window.scalars("loss")
            for step, value in zip(series.steps_S.tolist(), series.values_S, strict=True)
            if (series.of, step) in wanted
        ]
    )


LATER_STEPS = 20
"""Number of latest steps whose median is the current loss; chosen by hand."""
FALLEN_TO = 0.8
"""A loss below this share of its value at the time of the calls has fallen; chosen by hand."""


def has_fallen_since(window: Window, calls: Sequence[LossCall]) -> bool:
    """Return whether the loss has fallen far since some calls were sampled.

    In a long training run samples are rare, so their evidence may be out of date.
    """
    then = losses_at(window, calls)
    mine = {call.series for call in calls}
    series = [one for one in window.scalars("loss") if one.of in mine and len(one) >= LATER_STEPS]
    if not len(then) or len(series) != 1:
        return False
    now = float(np.median(series[0].values_S[-LATER_STEPS:]))
    return bool(now < FALLEN_TO * float(np.median(then)))


def made_at(call: LossCall, what: str) -> str:
    """Return the line that made the prediction, as the end of a message; '' if unknown."""
    return f"; the {what} is called at {call.made_at}" if call.made_at else ""


def chosen_at(call: LossCall) -> str | None:
    """Return the line to change if the loss does not fit its model."""
    return call.chosen_at or call.location


def finding_of_calls(
    rule: Rule,
    window: Window,
    calls: Sequence[LossCall],
    severity: Severity,
    message: str,
    evidence: dict[str, EvidenceValue],
    fixes: tuple[str, ...] | None = None,
    location: str | None = None,
) -> Finding:
    """Make a finding that begins with the first of some calls, at their line.

    `fixes` are the fixes that apply; None = all fixes of the rule. `location` replaces the line.
    """
    return rule.finding(
        window,
        severity=severity,
        step=calls[0].step,
        last_step=calls[-1].step,
        count=len({call.step for call in calls}),
        message=message,
        evidence=evidence,
        fixes=fixes,
        location=location or calls[0].location,
    )
