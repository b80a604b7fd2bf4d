"""DAT535: evaluation targets have a different scale than training targets."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import BootstrappedTargets, Evaluation
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import targets_move, train_calls


@rule(
    "DAT535",
    title="evaluation targets differ",
    needs=[
        Need(facts=(Evaluation, LossCall)),
        Need(facts=(BootstrappedTargets,), optional=True),
    ],
    explains=(
        "early_stopping_misled",
        "labels_unrelated",
        "nothing_learned",
        "overfit",
        "overtraining",
        "stopped_too_late",
    ),
)
def eval_targets_differ(
    window: Window,
    *,
    rows: int = threshold(32, unit="targets", source="chosen by hand"),
    shift: float = threshold(
        5.0, unit="standard deviations of the training targets", source="as for inputs in DAT509"
    ),
    ratio: float = threshold(
        10.0, unit="times the standard deviation in training", source="as in TRE916"
    ),
) -> Found | None:
    """Evaluation targets have a different scale than training targets.

    What it detects:
        Targets of a squared error whose mean or standard deviation differs strongly between
        training and evaluation.

    Why it matters:
        The model predicts on the scale of the training targets, so the evaluation loss stays high,
        however good the model is. Usually only the training targets were standardized.

    Fires:
        Warning when the mean of the evaluation targets is more than `shift` training standard
        deviations from the mean of the training targets. Also when the standard deviations differ
        by a factor of more than `ratio`. Both need `rows` targets in training and in evaluation.

    Stays quiet:
        For class labels, constant targets, and targets that the model computes itself. For losses
        other than squared errors. For losses that get their prediction as the target. If several
        lines compute such losses in training, because their targets may have different scales.

    What to do:
        - Scale the targets of both datasets with the mean and standard deviation of the training
          targets.
        - To report errors in the original unit, scale the predictions back.

    Example:
        loss = mse(model(x_valid), y_valid)                         # y_train was standardized
        loss = mse(model(x_valid), (y_valid - y_mean) / y_std)

    References:
        Breck et al. 2019, Data validation for machine learning,
        https://mlsys.org/Conferences/2019/doc/2019/167.pdf
    """
    if targets_move(window):
        raise NotApplicable("the model computes its own targets")
    calls = [call for call in train_calls(window) if call.operation == "elementwise"]
    samples = [call.targets for call in calls if call.targets and call.targets.std is not None]
    places = {call.location for call in calls}
    evaluated = [one for one in window.seen(Evaluation) if one.target_std is not None]
    if not samples or not evaluated:
        raise NotApplicable("no targets of a squared error were recorded in both modes")
    if any(call.swapped for call in calls):
        raise NotApplicable("the loss gets its prediction as the target")
    if len(places) != 1:
        raise NotApplicable("several losses with different targets are computed in training")
    count = sum(one.count for one in samples)
    if count < rows:
        raise NotEnoughData(f"needs {rows} training targets, saw {count}")
    mean, std = _moments(samples)
    if not std:
        raise NotApplicable("all training targets are equal")
    for one in evaluated:
        other_mean, other_std = one.target_mean or 0.0, one.target_std or 0.0
        distance = abs(other_mean - mean) / std
        factor = max(other_std / std, std / other_std) if other_std else 1.0
        if one.rows >= rows and (distance > shift or factor > ratio):
            how = f"the mean is {distance:.3g} training standard deviations away (limit {shift:g})"
            if distance <= shift:
                how = (
                    f"the standard deviation differs by a factor of {factor:.3g} (limit {ratio:g})"
                )
            return Found.of(
                [one],
                f"the targets have mean {other_mean:.3g} and standard deviation {other_std:.3g} in "
                f"evaluation, but mean {mean:.3g} and standard deviation {std:.3g} in training: "
                f"{how}",
                evidence={
                    "train_mean": mean,
                    "train_std": std,
                    "eval_mean": other_mean,
                    "eval_std": other_std,
                },
                mode="eval",
            )
    return None


def _moments(samples: list[TargetSample]) -> tuple[float, float]:
    """Return the mean and the standard deviation of the targets of several calls together."""
    count_S = np.array([one.count for one in samples], dtype=np.float64)
    mean_S = np.array([one.mean or 0.0 for one in samples])
    std_S = np.array([one.std or 0.0 for one in samples])
    mean = float((count_S * mean_S).sum() / count_S.sum())
    square = float((count_S * (std_S**2 + mean_S**2)).sum() / count_S.sum())
    return mean, max(0.0, square - mean**2) ** 0.5
