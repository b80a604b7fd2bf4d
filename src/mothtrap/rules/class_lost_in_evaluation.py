"""DAT544: one class fails in evaluation, and the others do well."""

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
from mothtrap.rules._confusions import by_row, confusion, evaluations
from mothtrap.rules._loss_calls import class_calls, label_counts

LEAST_CLASSES = 3
"""With two classes, a class that is never predicted is a matter of frequencies."""
KEPT = 0.9
"""Share of an earlier confusion that must remain, as in DAT504; chosen by hand."""


@rule(
    "DAT544",
    title="one class fails in evaluation",
    needs=[Need(facts=(LossCall,)), Need(facts=(LabelledOutputs,), optional=True)],
    explains=("confusion", "overfit", "overtraining"),
    passes=True,
)
def class_lost_in_evaluation(
    window: Window,
    *,
    rows: int = threshold(20, unit="evaluation rows of the class", source="chosen by hand"),
    wrong: float = threshold(0.6, unit="of the rows of the class", source="as in DAT504"),
    learned: float = threshold(
        0.7, unit="of the rows of the other classes", source="as in DAT503: below, all classes fail"
    ),
    rare: float = threshold(10.0, unit="times the training labels", source="as in DAT503"),
) -> Found | None:
    """One class fails in evaluation, and the others do well.

    What it detects:
        A class whose evaluation rows are mostly predicted as one other class, while the model
        predicts the other classes well.

    Why it matters:
        The training data teach something else about this class: its labels are wrong or merged with
        another class, or an augmentation turns its examples into those of another class. The
        accuracy hardly shows it.

    Fires:
        Warning when, in the latest two evaluations, more than `wrong` of the rows of a class, at
        least `rows` of them, are predicted as the same other class, and at least `learned` of the
        rows of the other classes are right. The share must not have improved by a tenth.

    Stays quiet:
        For two classes and for more than 20. For a class that is not in the training data (see
        DAT514), or has fewer than 1/`rare` of the training labels of the most frequent class (see
        DAT503). Without labels in evaluation.

    What to do:
        - Look at training examples of both classes: does each label match its input?
        - Check the code that assigns, renames or merges classes, and that both datasets run it.
        - Check the augmented training examples: a flip turns left into right.

    Example:
        y_train[y_train == 3] = 8          # only the training labels are merged

    References:
        Northcutt, Jiang, Chuang 2021, Confident learning, JAIR 70,
        https://arxiv.org/abs/1911.00068
    """
    groups = evaluations(window)
    if not groups:
        raise NotApplicable("no predictions of an evaluation of at most 20 classes were recorded")
    trained_K = label_counts(class_calls(window))
    judged = False
    for same in groups:
        steps = sorted({one.step for one in same})
        before_KK, late_KK = (
            confusion([one for one in same if one.step == step]) for step in (steps * 2)[-2:]
        )
        if len(steps) < 2 or before_KK is None or late_KK is None:
            continue
        if before_KK.shape != late_KK.shape or len(late_KK) < LEAST_CLASSES:
            continue
        judged = True
        pair = _worst_pair(before_KK, late_KK, trained_K, rows, rare)
        if pair is None:
            continue
        label, other = pair
        share = float(late_KK[label, other] / late_KK[label].sum())
        rest_KK = np.delete(late_KK, label, axis=0)
        right = (np.trace(late_KK) - late_KK[label, label]) / max(1.0, rest_KK.sum())
        if share <= wrong or right < learned:
            continue
        return Found.of(
            [one for one in same if one.step >= steps[-2]],
            f"in the latest two evaluations, {share:.0%} of the {late_KK[label].sum():.0f} rows of "
            f"class {label} are predicted as class {other} (limit {wrong:.0%}), and {right:.0%} of "
            "the other rows are right",
            evidence={"value": share, "limit": wrong, "class": label, "right": float(right)},
            mode="eval",
        )
    if not judged:
        raise NotEnoughData("needs two evaluations with labels of at least 3 classes")
    return None


def _worst_pair(
    before_KK: Floats, late_KK: Floats, trained_K: Floats, rows: int, rare: float
) -> tuple[int, int] | None:
    """Return the class that is most often predicted as one other class, and that class.

    Args:
        before_KK: counts of the evaluation before the latest, by label and prediction.
        late_KK: counts of the latest evaluation.
        trained_K: number of training labels of each class.
        rows: minimum number of rows of the class in each evaluation.
        rare: factor below the most frequent class at which a class is too rare.
    """
    count_K = np.zeros(len(late_KK))
    known = min(len(count_K), len(trained_K))
    count_K[:known] = trained_K[:known]
    judged_K = count_K * rare >= max(1.0, count_K.max())
    judged_K &= np.minimum(before_KK.sum(axis=1), late_KK.sum(axis=1)) >= rows
    then_KK, now_KK = by_row(before_KK), by_row(late_KK)
    lasts_KK = (now_KK >= KEPT * then_KK) & judged_K[:, None] & ~np.eye(len(late_KK), dtype=bool)
    share_KK = np.where(lasts_KK, np.nan_to_num(np.minimum(then_KK, now_KK)), 0.0)
    label, other = np.unravel_index(int(share_KK.argmax()), share_KK.shape)
    return (int(label), int(other)) if share_KK[label, other] > 0 else None
