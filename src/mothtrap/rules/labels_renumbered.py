"""DAT532: the evaluation numbers the classes in another way than the training."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import LabelledOutputs
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Ints, Window
from mothtrap.rules._confusions import by_row, confusion, late_calls
from mothtrap.rules._loss_calls import by_place


@rule(
    "DAT532",
    title="classes numbered differently",
    needs=[Need(facts=(LossCall,)), Need(facts=(LabelledOutputs,), optional=True)],
    explains=(
        "confusion",
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
        0.5, unit="of the labels whose class is predicted as another", source="chosen by hand"
    ),
) -> Found | None:
    """The evaluation numbers the classes in another way than the training.

    What it detects:
        An evaluation in which the model predicts each class as a different class: the predictions
        would agree with the labels if the classes had other numbers.

    Why it matters:
        The model is right, but its accuracy is near 0 and its evaluation loss rises while it
        learns. Usually the class numbers were assigned twice: by a second `LabelEncoder`, or from
        the sorted folder names of a part of the data that lacks a class.

    Fires:
        Warning when, among the latest `labels` labels of an evaluation, at least `agreement`
        of the labels of each of three classes or more are predicted as a single class, no two
        classes are predicted as the same one, and at least `moved` of all labels belong to classes
        that are predicted as another class. Classes with fewer than `of_class` labels do not count.
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
        y_valid = LabelEncoder().fit_transform(valid_labels)     # numbers of its own
        y_valid = encoder.transform(valid_labels)                # numbers of the training

    References:
        https://scikit-learn.org/stable/modules/generated/sklearn.preprocessing.LabelEncoder.html
    """
    most, groups = 0, _evaluations(window)
    if not groups:
        raise NotApplicable("no predictions of an evaluation of at most 20 classes were recorded")
    for same in groups:
        late = late_calls(same, labels)
        counts_KK = confusion(late)
        if counts_KK is None or counts_KK.sum() < labels:
            most = max(most, 0 if counts_KK is None else int(counts_KK.sum()))
            continue
        most = labels
        predicted_K = _renumbering(counts_KK, of_class, agreement)
        count_K = counts_KK.sum(axis=1)
        if predicted_K is None:
            continue
        is_moved_K = (predicted_K >= 0) & (predicted_K != np.arange(len(predicted_K)))
        share = float(count_K[is_moved_K].sum() / count_K.sum())
        if share < moved:
            continue
        own = float(np.trace(counts_KK) / count_K.sum())
        pairs = [f"{k} as {predicted_K[k]}" for k in np.flatnonzero(is_moved_K)[:3].tolist()]
        return Found.of(
            late,
            f"the model predicts class {', '.join(pairs)} in the evaluation, and is right for "
            f"{own:.0%} of the rows: the classes are numbered differently than in training",
            step=same[0].step,  # the labels are the same in each evaluation
            evidence={"value": share, "limit": moved, "right": own},
            mode="eval",
        )
    if most < labels:
        raise NotEnoughData(f"needs {labels} labels of an evaluation, saw {most}")
    return None


def _evaluations(window: Window) -> list[list[LossCall]] | list[list[LabelledOutputs]]:
    """Return the evaluations with predictions, by line: those with a loss if there are any."""
    calls = list(window.seen(LossCall))
    evaluated = [
        call
        for call in calls
        if call.mode is Mode.EVAL and call.targets is not None and call.targets.confusion
    ]
    if evaluated:
        return by_place(evaluated)
    trained = {call.classes for call in calls if call.mode is Mode.TRAIN and _has_labels(call)}
    found: dict[tuple[str, str], list[LabelledOutputs]] = defaultdict(list)
    for one in window.seen(LabelledOutputs):
        size = len(one.targets.confusion or ())
        if any(size == (classes or 0) ** 2 for classes in trained):
            found[one.site, one.variable].append(one)
    return list(found.values())


def _has_labels(call: LossCall) -> bool:
    """Return whether a loss has one class number per row."""
    return call.targets is not None and bool(call.targets.confusion)


def _renumbering(counts_KK: Floats, of_class: int, agreement: float) -> Ints | None:
    """Return the class that each class is predicted as, -1 for rare classes; None if unclear."""
    is_known_K = counts_KK.sum(axis=1) >= of_class
    predicted_K = np.where(is_known_K, counts_KK.argmax(axis=1), -1)
    known_K = predicted_K[is_known_K]
    clear = (np.nan_to_num(by_row(counts_KK)).max(axis=1)[is_known_K] >= agreement).all()
    if len(known_K) < 3 or len(np.unique(known_K)) < len(known_K) or not clear:
        return None
    return predicted_K
