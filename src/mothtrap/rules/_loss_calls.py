"""Shared parts of the rules on inputs of losses: sampled calls, and the losses beside them."""

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
"""Classes from which on a model of integers predicts tokens, not classes; chosen by hand."""


def train_calls(window: Window) -> list[LossCall]:
    """Return the loss calls of training, oldest first.

    Raises:
        NotEnoughData: none was seen.
    """
    calls = [call for call in window.seen(LossCall) if call.mode is Mode.TRAIN]
    if not calls:
        raise NotEnoughData("no loss was traced to its operation")
    return calls


def class_calls(window: Window, *, binary: bool = True) -> list[LossCall]:
    """Return the calls of training that are class losses, oldest first.

    Raises:
        NotEnoughData: no loss was seen.
        NotApplicable: none of them is a class loss.
    """
    found = [
        call
        for call in train_calls(window)
        if call.operation in CLASS_LOSSES or (binary and call.operation.startswith("binary"))
    ]
    if not found:
        raise NotApplicable("no class loss was seen")
    return found


def targets_move(window: Window) -> bool:
    """Return whether what the model learns from comes from the model itself.

    So it is with targets that it, or a copy of it, computes, and with rewards of the actions
    that it chooses. Such a loss may rise while the model learns, and targets may drift.
    """
    gains = any(call.operation == POLICY_GAIN for call in window.seen(LossCall))
    return gains or any(True for _ in window.seen(BootstrappedTargets))


def by_place(calls: Iterable[LossCall]) -> list[list[LossCall]]:
    """Return calls by the line, operation and series that they belong to."""
    found: dict[tuple[object, ...], list[LossCall]] = defaultdict(list)
    for call in calls:
        found[call.location, call.operation, call.series].append(call)
    return list(found.values())


def predicts_tokens(call: LossCall) -> bool:
    """Return whether the classes are tokens.

    The model reads integers, and there are many classes.
    """
    return (call.classes or 0) >= MIN_VOCABULARY and any(t in INTEGERS for t in call.model_inputs)


def is_classifier(call: LossCall) -> bool:
    """Return whether every example of a batch has one label.

    No tokens, tags, pixels, several labels.
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
        NotEnoughData: no labels were looked at.
    """
    sampled = [call.label_counts for call in calls if call.label_counts]
    if not sampled:
        raise NotEnoughData("no labels of this loss were seen")
    total_K = np.zeros(max(len(counts) for counts in sampled))
    for counts in sampled:
        total_K[: len(counts)] += counts
    return total_K


def entropy(counts_K: Floats) -> float:
    """Return the entropy of label frequencies in nats: the loss of the best constant guess."""
    share_K = counts_K[counts_K > 0] / max(1.0, float(counts_K.sum()))
    return float(-(share_K * np.log(share_K)).sum()) + 0.0


def losses_at(window: Window, calls: Iterable[LossCall]) -> Floats:
    """Return the losses of the steps in which calls were made, where they are in the window."""
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
"""Latest steps whose median loss is the present one; chosen by hand."""
FALLEN_TO = 0.8
"""Share of the loss at the time of some calls, below which it has fallen since; chosen by hand."""


def has_fallen_since(window: Window, calls: Sequence[LossCall]) -> bool:
    """Return whether the loss is much less by now than when some calls were looked at.

    Looks become rare in a long training: what they show may have been unlearned since.
    """
    then = losses_at(window, calls)
    mine = {call.series for call in calls}
    series = [one for one in window.scalars("loss") if one.of in mine and len(one) >= LATER_STEPS]
    if not len(then) or len(series) != 1:
        return False
    now = float(np.median(series[0].values_S[-LATER_STEPS:]))
    return bool(now < FALLEN_TO * float(np.median(then)))


def made_at(call: LossCall, what: str) -> str:
    """Return the line of what made the prediction as the end of a message, where it is known."""
    return f"; the {what} is called at {call.made_at}" if call.made_at else ""


def chosen_at(call: LossCall) -> str | None:
    """Return the line to act in where the loss does not fit its model."""
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
    """Make a finding that begins with the first of some calls and is acted on in their line.

    `fixes` are those that fit what was found; None = all of the rule. `location`: another line.
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
