"""DAT535: the evaluation targets have another scale than the training targets."""

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
    """The evaluation targets have another scale than the training targets.

    What it detects:
        Targets of a squared error whose mean or standard deviation in evaluation is far from its
        value in training.

    Why it matters:
        The model predicts on the scale of the training targets, so the evaluation loss stays high
        and says nothing about the model. Usually only the training targets were standardized.

    Fires:
        Warning when the mean of at least `rows` evaluation targets is more than `shift` standard
        deviations of the training targets away, or their standard deviation is more than `ratio`
        times as large or as small.

    Stays quiet:
        For class labels, constant targets, and targets that the model computes itself. For losses
        other than squared errors. If several lines compute squared errors in training, because
        their targets may have different scales.

    What to do:
        - Scale both with the mean and standard deviation of the training targets.
        - Report errors in the original unit by scaling the predictions back.

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
    if len(places) != 1:
        raise NotApplicable("several losses with different targets are computed in training")
    if sum(one.count for one in samples) < rows:
        raise NotEnoughData(f"needs {rows} training targets")
    mean, std = _together(samples)
    if not std:
        raise NotApplicable("all training targets are equal")
    for one in evaluated:
        other_mean, other_std = one.target_mean or 0.0, one.target_std or 0.0
        far = abs(other_mean - mean) > shift * std
        wide = other_std > 0 and not 1 / ratio <= other_std / std <= ratio
        if one.rows >= rows and (far or wide):
            return Found.of(
                [one],
                f"the targets have mean {other_mean:.3g} and standard deviation {other_std:.3g} in "
                f"the evaluation, but mean {mean:.3g} and standard deviation {std:.3g} in training",
                evidence={
                    "train_mean": mean,
                    "train_std": std,
                    "eval_mean": other_mean,
                    "eval_std": other_std,
                },
                mode="eval",
            )
    return None


def _together(samples: list[TargetSample]) -> tuple[float, float]:
    """Return mean and standard deviation of the targets of several calls."""
    count_S = np.array([one.count for one in samples], dtype=np.float64)
    mean_S = np.array([one.mean or 0.0 for one in samples])
    std_S = np.array([one.std or 0.0 for one in samples])
    mean = float((count_S * mean_S).sum() / count_S.sum())
    square = float((count_S * (std_S**2 + mean_S**2)).sum() / count_S.sum())
    return mean, max(0.0, square - mean**2) ** 0.5
