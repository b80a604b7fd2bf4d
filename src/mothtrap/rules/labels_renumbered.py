"""DAT532: evaluation numbers the classes differently than training."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import LabelledOutputs
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._confusions import by_row, confusion, evaluations, late_calls
from mothtrap.rules._effects import CONFUSED

SHOWN = 3
"""Maximum number of classes that a message names."""


@rule(
    "DAT532",
    title="classes numbered differently",
    needs=[Need(facts=(LossCall,)), Need(facts=(LabelledOutputs,), optional=True)],
    explains=(
        *CONFUSED,
        "early_stopping_misled",
        "labels_unrelated",
        "loss_diverging",
        "overfit",
        "overtraining",
        "stopped_too_late",
    ),
    passes=True,
)
def labels_renumbered(
    window: Window,
    *,
    labels: int = threshold(100, unit="labels of an evaluation", source="chosen by hand"),
    of_class: int = threshold(5, unit="labels of a class", source="chosen by hand"),
    agreement: float = threshold(
        0.8, unit="of the labels of a class that are predicted as one class", source="by hand"
    ),
    moved: float = threshold(
        0.5, unit="of the labels whose class is predicted as another class", source="by hand"
    ),
) -> Found | None:
    """Evaluation numbers the classes differently than training.

    What it detects:
        An evaluation in which the model predicts each class as a different class: the predictions
        would agree with the labels if the classes had other numbers.

    Why it matters:
        The model is right, but its accuracy is near 0 and its evaluation loss rises while it
        learns. Usually the class numbers were assigned twice: by a second `LabelEncoder`, or from
        the sorted folder names of a part of the data that lacks a class.

    Fires:
        Warning when at least `moved` of the latest `labels` labels of an evaluation belong to
        classes that are consistently predicted as another class. Consistently means that, for each
        of at least three classes, `agreement` of its labels are predicted as a single class, and no
        two classes are predicted as the same class. Classes with fewer than `of_class` labels do
        not count.
        The labels are those of the evaluation loss. Without a loss, they are the variable of the
        script that has one integer per row and that the model predicts best.

    Stays quiet:
        For two classes, more than 20 classes, several labels per example, and models that are not
        trained with a class loss.

    What to do:
        - Assign the numbers once, from the training data, and use them for every dataset:
          `encoder.fit(train_labels)`, then `encoder.transform(valid_labels)`.
        - Compare `train_set.class_to_idx` with `valid_set.class_to_idx`.

    Example:
        y_valid = LabelEncoder().fit_transform(valid_labels)     # numbers the classes again
        y_valid = encoder.transform(valid_labels)                # uses the training numbers

    References:
        https://scikit-learn.org/stable/modules/generated/sklearn.preprocessing.LabelEncoder.html
    """
    most, groups = 0, evaluations(window)
    if not groups:
        raise NotApplicable("no predictions of an evaluation of at most 20 classes were recorded")
    for same in groups:
        late = late_calls(same, labels)
        counts_KK = confusion(late)
        count = int(counts_KK.sum()) if counts_KK is not None else 0
        most = max(most, count)
        if counts_KK is None or count < labels:
            continue
        others = _renumbered(counts_KK, of_class, agreement)
        share = float(counts_KK[list(others)].sum()) / count
        if not others or share < moved:
            continue
        pairs = ", ".join(f"{label} as {other}" for label, other in [*others.items()][:SHOWN])
        return Found.of(
            late,
            f"in evaluation, the model predicts class {pairs}, and {share:.0%} of the labels "
            f"belong to such classes (limit {moved:.0%}): the classes are numbered differently "
            "than in training",
            step=same[0].step,  # the labels are the same in each evaluation
            evidence={"value": share, "limit": moved, "right": float(np.trace(counts_KK)) / count},
            mode="eval",
        )
    if most < labels:
        raise NotEnoughData(f"needs {labels} labels of an evaluation, saw {most}")
    return None


def _renumbered(counts_KK: Floats, of_class: int, agreement: float) -> dict[int, int]:
    """Return the classes that are predicted as another class; empty if this is unclear."""
    known_K = np.flatnonzero(counts_KK.sum(axis=1) >= of_class)
    share_KK = by_row(counts_KK[known_K])
    predicted_K = share_KK.argmax(axis=1)
    is_clear = bool((share_KK.max(axis=1) >= agreement).all())
    if len(known_K) < 3 or len(np.unique(predicted_K)) < len(known_K) or not is_clear:
        return {}
    pairs = zip(known_K.tolist(), predicted_K.tolist(), strict=True)
    return {label: predicted for label, predicted in pairs if label != predicted}
