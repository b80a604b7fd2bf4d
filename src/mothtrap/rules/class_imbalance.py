"""DAT503: some classes are rare, or the model never predicts one of them."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.facts.estimators import EstimatorFitted, PredictionsCompared
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.facts.trees import TableSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need, any_of
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._confusions import (
    confusion,
    is_constant,
    late_calls,
    misprediction,
    require_rows,
    two_stretches,
)
from mothtrap.rules._loss_calls import (
    by_place,
    class_calls,
    finding_of_calls,
    has_fallen_since,
    is_classifier,
    label_counts,
)
from mothtrap.rules._losses import has_players

OF_ESTIMATORS = (
    'Weight the rare class: `class_weight="balanced"`, or `sample_weight` of `fit`.',
    "Score with `average_precision_score`, `balanced_accuracy_score` or `f1_score`, not with the "
    "accuracy.",
)
MIN_EVALUATED, MIN_RECALL = 10, 0.3
"""Evaluation rows of a rare class, and the share of them that a model should recognize; chosen by
hand."""
ALL = 0.995
"""Minimum share for which the message says "all"."""


@frozen
class ClassImbalance(Rule):
    """Some classes are rare, or one of them is never predicted.

    What it detects:
        A class with many times the labels of another. Also a class whose examples are mostly
        misclassified while the model learns the other classes.

    Why it matters:
        The frequent classes dominate the mean loss. A model that never predicts the rare class
        has a low loss and a high accuracy, but is useless if the rare class matters.

    Fires:
        Over at least `samples` labels, when the most frequent class has more than
        `threshold_imbalance` times the labels of the rarest class that occurs. Warning if more
        than `threshold_misprediction` of the latest examples of a rare class are misclassified;
        otherwise a note, because the imbalance is a property of the task. Warning also when more
        than `threshold_misprediction` of the examples of a class are misclassified, both among
        the last `samples` labels and the `samples` labels before them, while at least
        `learned_share` of all examples are right. A note if the class weights of the loss favor the
        rare class.

    Stays quiet:
        For tokens, pixels, per-position tags, multi-label targets, soft targets, the real and
        fake batches of a GAN, and classes that do not occur. For a misclassified class while the
        loss still falls, or while the model always predicts the most frequent class, which has less
        than `threshold_imbalance` times the labels of the others.

    What to do:
        - Check the error of each class, not only the accuracy.
        - PyTorch: Weight the loss: `CrossEntropyLoss(weight=...)`, or `pos_weight` of a binary
          loss. Or oversample rare examples: `WeightedRandomSampler`.
        - Keras: Weight the loss: `fit(..., class_weight={0: 1.0, 1: 9.0})`. Or oversample rare
          examples: `tf.data.Dataset.sample_from_datasets`.
        - JAX: Weight the loss of each row by its class: `jnp.average(losses, weights=...)`. Or
          oversample rare examples.
        - Collect more examples of the rare class, or move the decision threshold.

    Example:
        loss = F.cross_entropy(model(x), y)                  # 1 of 100 is of class 1
        loss = F.cross_entropy(model(x), y, weight=torch.tensor([1.0, 99.0]))

    References:
        He and Garcia 2009, Learning from imbalanced data, IEEE TKDE 21(9),
        https://doi.org/10.1109/TKDE.2008.239
    """

    code = "DAT503"
    needs = (
        *any_of(Need(facts=(LossCall,)), Need(facts=(TableSeen,))),
        Need(scalars=("loss",), optional=True),
        Need(facts=(LoaderBegan, EstimatorFitted, PredictionsCompared), optional=True),
    )
    explains = (
        "stuck_at_chance",
        "too_good_to_be_true",
        "constant_output",
        "labels_unrelated",
    )
    passes = True

    threshold_imbalance: float = threshold(
        10.0, unit="times the labels of the rarest class", source="default of SageMaker Debugger"
    )
    threshold_misprediction: float = threshold(
        0.7, unit="of the examples of a class", source="default of SageMaker Debugger"
    )
    samples: int = threshold(500, unit="labels", source="default of SageMaker Debugger")
    learned_share: float = threshold(
        0.7,
        unit="of all examples",
        source="chosen by hand: at a lower accuracy, every class may be misclassified",
    )

    def check(self, window: Window) -> list[Finding]:
        """Count the labels and errors of every classifier."""
        tables = [table for table in window.seen(TableSeen) if not table.site]
        if tables and not any(window.seen(LossCall)):
            return self._of_tables(window, tables)
        sampled = [call for call in class_calls(window) if call.targets is not None]
        if not sampled:
            raise NotEnoughData("no labels of a class loss were recorded")
        calls = [call for call in sampled if is_classifier(call)]
        if not calls:
            raise NotApplicable("no loss has one class per example")
        if has_players(window):
            raise NotApplicable("several losses compete with each other")
        require_rows(window, self.samples)
        seen = 0
        for same in by_place(calls):
            try:
                counts_K = label_counts(same)
            except NotEnoughData:
                continue
            seen = max(seen, int(counts_K.sum()))
            if counts_K.sum() < self.samples:
                continue
            found = self._imbalanced(window, same, counts_K) or self._mispredicted(window, same)
            if found is not None:
                return [found]
        if seen < self.samples:
            raise NotEnoughData(f"needs {self.samples} labels, saw {seen}")
        return []

    def _of_tables(self, window: Window, tables: list[TableSeen]) -> list[Finding]:
        """Check the labels of training tables."""
        labelled = [table for table in tables if table.label_counts is not None]
        if not labelled:
            raise NotApplicable("no model is a classifier")
        if max(table.rows for table in labelled) < self.samples:
            raise NotEnoughData(f"no table has {self.samples} labels")
        fits = {one.fit for one in window.seen(EstimatorFitted)}
        for table in labelled:
            counts = {label: n for label, n in enumerate(table.label_counts or ()) if n}
            most, rarest = (of(counts, key=lambda label: counts[label]) for of in (max, min))
            ratio = counts[most] / counts[rarest]
            if table.rows < self.samples or ratio <= self.threshold_imbalance:
                continue
            missed = _missed(window, table.fit, rarest) if table.fit in fits else "unknown"
            return [
                self.finding(
                    window,
                    severity=Severity.INFO if table.weighted or not missed else Severity.WARNING,
                    step=table.step,
                    message=(
                        f"class {most} has {ratio:.0f}x the rows of class {rarest} "
                        f"({counts[most]} to {counts[rarest]})"
                        + (missed if table.fit in fits else "")
                        + ("; rows or classes are weighted" if table.weighted else "")
                    ),
                    evidence={
                        "value": ratio,
                        "limit": self.threshold_imbalance,
                        "rarest": rarest,
                        "most_frequent": most,
                        "labels": table.rows,
                    },
                    location=table.location,
                    fixes=OF_ESTIMATORS
                    if table.fit in fits
                    else (
                        f"Weight the rare class: `scale_pos_weight={ratio:.0f}`, or a weight per "
                        "row.",
                        'Evaluate with a ranking metric: `eval_metric="aucpr"`.',
                    ),
                )
            ]
        return []

    def _imbalanced(
        self, window: Window, calls: list[LossCall], counts_K: Floats
    ) -> Finding | None:
        present = np.flatnonzero(counts_K)
        if len(present) < 2:
            return None
        rarest = int(present[counts_K[present].argmin()])
        most = int(counts_K.argmax())
        ratio = float(counts_K[most] / counts_K[rarest])
        if ratio <= self.threshold_imbalance:
            return None
        harm = self._harm(calls, counts_K)
        weighted = any(_favors(call.targets, rarest, most) for call in calls if call.targets)
        return finding_of_calls(
            self,
            window,
            calls,
            Severity.WARNING if harm and not weighted else Severity.INFO,
            f"class {most} has {ratio:.0f}x the labels of class {rarest} "
            f"({int(counts_K[most])} to {int(counts_K[rarest])}){harm}"
            + ("; the loss has class weights" if weighted else ""),
            {
                "value": ratio,
                "limit": self.threshold_imbalance,
                "rarest": rarest,
                "most_frequent": most,
                "labels": int(counts_K.sum()),
            },
        )

    def _harm(self, calls: list[LossCall], counts_K: Floats) -> str:
        """Describe a rare class that is mostly misclassified; empty without such a class."""
        table_KK = confusion(late_calls(calls, self.samples))
        if table_KK is None or len(table_KK) != len(counts_K):
            return ""
        rare_K = (counts_K > 0) & (counts_K * self.threshold_imbalance < counts_K.max())
        wrong_K = np.where(rare_K, misprediction(table_KK), np.nan)
        if np.isnan(wrong_K).all():
            return ""
        worst = int(np.nanargmax(wrong_K))
        if not wrong_K[worst] > self.threshold_misprediction:
            return ""
        return f", and {_share_in_words(wrong_K[worst])} of class {worst} are misclassified"

    def _mispredicted(self, window: Window, calls: list[LossCall]) -> Finding | None:
        before, late = two_stretches(calls, self.samples)
        confusion_KK, before_KK = confusion(late), confusion(before)
        if confusion_KK is None or before_KK is None or before_KK.shape != confusion_KK.shape:
            return None
        learned = np.trace(confusion_KK) >= self.learned_share * confusion_KK.sum()
        if not learned or is_constant(confusion_KK):
            return None
        # Require both stretches, so that a class that is just being learned is ignored.
        wrong_K = np.minimum(misprediction(confusion_KK), misprediction(before_KK))
        if np.isnan(wrong_K).all():
            return None
        worst = int(np.nanargmax(wrong_K))
        if not wrong_K[worst] > self.threshold_misprediction or has_fallen_since(window, late):
            return None
        return finding_of_calls(
            self,
            window,
            late,
            Severity.WARNING,
            f"{_share_in_words(wrong_K[worst])} of class {worst} are misclassified; the overall "
            f"accuracy is {np.trace(confusion_KK) / confusion_KK.sum():.0%}",
            {
                "value": float(wrong_K[worst]),
                "limit": self.threshold_misprediction,
                "class": worst,
                "labels": int(confusion_KK[worst].sum()),
            },
        )


def _favors(targets: TargetSample, rare: int, frequent: int) -> bool:
    """Return whether the weights of a loss favor the rare class, as far as they are known."""
    weights = targets.class_weights
    if max(rare, frequent) >= len(weights):
        return targets.weighted
    return weights[rare] > weights[frequent]


def _share_in_words(share: float) -> str:
    return "all examples" if share >= ALL else f"{share:.0%} of the examples"


def _missed(window: Window, fit: str, rarest: int) -> str:
    """Describe the low recall of a rare class in an evaluation, or return ""."""
    for one in window.seen(PredictionsCompared):
        if one.fit != fit or one.trained or rarest >= len(one.label_counts):
            continue
        rows, right = one.label_counts[rarest], one.right[rarest]
        if rows >= MIN_EVALUATED and right < MIN_RECALL * rows:
            return f", and the model recognizes {right} of its {rows} evaluation rows"
    return ""
