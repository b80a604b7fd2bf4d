"""LOS435: the soft targets of a loss belong to other rows."""

from __future__ import annotations

import math

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.targets import SoftTargets
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "LOS435",
    title="soft targets of other rows",
    needs=[Need(facts=(SoftTargets,))],
    explains=(*UNLEARNED, "constant_output", "labels_unrelated", "overtraining"),
)
def soft_targets_of_other_rows(
    window: Window,
    *,
    rows: int = threshold(200, unit="compared rows", source="chosen by hand"),
    apart: float = threshold(
        0.3,
        unit="of the rows in other classes",
        source="chosen by hand: an untrained teacher has more",
    ),
    sure: float = threshold(
        0.2,
        unit="of the way from equal probabilities to certainty",
        source="chosen by hand: a teacher that is not trained yet is below 0.1",
    ),
    deviations: float = threshold(
        3.0, unit="standard deviations above chance", source="chosen by hand"
    ),
) -> Found | None:
    """The soft targets of a loss belong to other rows.

    What it detects:
        A student that learns from the probabilities of a teacher and from labels, if the most
        probable class of the teacher agrees with the label no more often than by chance.

    Why it matters:
        The two terms of the loss contradict each other. The student learns the mean output of the
        teacher, which is the same for every row. Usually the outputs of the teacher were stored in
        one pass of a loader that shuffles, and later used in another order.

    Fires:
        Warning when at least `rows` rows were compared, the classes of the soft targets are
        distributed as the labels are, except for at most `apart` of the rows, their probability is
        `sure` of the way from equal probabilities to 1 on average, and they agree with the labels
        in at most as many rows as by chance, plus `deviations` standard deviations.

    Stays quiet:
        For soft targets that are not distributed like the labels, or that are nearly equal, as of a
        teacher that is not trained yet. Without labels in the same loss. For contrastive losses,
        and for more than 100 classes.

    What to do:
        - PyTorch: Compute the output of the teacher for the batch of the student: `with
          torch.no_grad(): soft = teacher(x).softmax(-1)`.
        - If outputs are stored, store them by the index of the row, or use a loader with
          `shuffle=False` in both passes. Random augmentation must be the same, too.
        - If the order is right, check that teacher and student number the classes in the same way.

    Example:
        soft = [teacher(x) for x, _ in loader]                  # loader shuffles
        for k, (x, y) in enumerate(loader):
            loss = distillation(student(x), soft[k], y)         # rows of another pass

    References:
        Hinton, Vinyals, Dean 2015, Distilling the knowledge in a neural network,
        https://arxiv.org/abs/1503.02531
    """
    seen = [one for one in window.seen(SoftTargets) if one.rows >= rows]
    if not seen:
        raise NotEnoughData(f"needs {rows} rows with soft targets and labels")
    for one in seen:
        pairs = [(g / one.rows, n / one.rows) for g, n in zip(one.given, one.labels, strict=True)]
        if sum(abs(given - label) for given, label in pairs) / 2 > apart:
            continue
        equal = 1 / len(one.labels)
        if one.surest < equal + sure * (1 - equal):
            continue
        chance = sum(given * label for given, label in pairs)
        limit = chance + deviations * math.sqrt(chance * (1 - chance) / one.rows)
        agree = one.agree / one.rows
        if agree > limit:
            continue
        return Found.of(
            one,
            f"the most probable class of the soft targets is the label in {agree:.0%} of "
            f"{one.rows} rows (by chance in {chance:.0%}), although all classes occur as often as "
            "among the labels: the soft targets belong to other rows",
            step=0,
            count=one.looks,
            evidence={"agree": agree, "chance": chance, "limit": limit, "rows": one.rows},
        )
    return None
