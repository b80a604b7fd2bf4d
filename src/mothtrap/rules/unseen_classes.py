"""DAT514: a model is evaluated on classes that are not in its training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.trees import TableSeen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need, any_of
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._loss_calls import class_calls, is_classifier, label_counts
from mothtrap.rules._losses import has_players

WEIGHTLESS = 1e-6
"""Share of the largest class weight up to which a class has no effect on training; by hand."""
SHOWN = 5
"""Largest number of classes that a message names."""
FIRST, KEPT = 16, 272
"""Maximum number of loss calls in a window: the first calls, and in total. Calls in between may be
missing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Labels:
    """Labels of one evaluation, or of training: `counts_K` of each class."""

    counts_K: Floats
    step: int = 0
    site: str = ""
    location: str | None = None


@frozen
class UnseenClasses(Rule):
    """A model is evaluated on classes that are not in its training data.

    What it detects:
        Evaluation labels whose class has not occurred among the training labels.

    Why it matters:
        The model is always wrong on these rows, because its training data have no example of their
        class. Validation stays bad even after long training. Usually the rows are sorted by class
        and were split without shuffling.

    Fires:
        Warning when at least `share` of the labels of an evaluation belong to classes that none of
        at least `samples` training labels had, and a random split would miss each of these classes
        with a probability below `chance`.

    Stays quiet:
        Tokens and pixels. Several labels per example. Soft targets. Competing losses (GAN).
        Evaluations of a head with other classes, or without recorded labels (a `tf.data.Dataset`).
        Training that moves on to other classes.

    What to do:
        - Shuffle before the split: `order = np.random.permutation(len(x))`, then split `x[order]`
          and `y[order]`.
        - Keep the share of each class in both parts: `train_test_split(x, y, stratify=y)`.
        - Keras: Shuffle before `fit(validation_split=...)`, which takes the last rows in their
          order.

    Example:
        x_train, x_valid = x[:8000], x[8000:]            # sorted by class
        x_train, x_valid, y_train, y_valid = train_test_split(x, y, stratify=y)

    References:
        https://keras.io/api/models/model_training_apis/, on `validation_split`;
        https://scikit-learn.org/stable/modules/cross_validation.html#stratification
    """

    code = "DAT514"
    title = "classes never trained on"
    needs = (
        *any_of(Need(facts=(LossCall, Evaluation)), Need(facts=(TableSeen,))),
        Need(scalars=("loss",), optional=True),
    )
    explains = (
        "early_stopping_misled",
        "labels_unrelated",
        "loss_diverging",
        "nothing_learned",
        "overfit",
        "overtraining",
        "stopped_too_late",
    )
    passes = True

    share: float = threshold(
        0.1,
        unit="of the labels of an evaluation",
        source="chosen by hand: rare classes may be missing",
    )
    samples: int = threshold(200, unit="training labels", source="chosen by hand")
    chance: float = threshold(1e-6, unit="probability", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Compare the classes of every evaluation with the training classes."""
        tables = list(window.seen(TableSeen))
        if tables:
            trained, evaluated = _of_tables(tables)
        else:
            trained, evaluated = _of_losses(window)
        if trained.sum() < self.samples:
            raise NotEnoughData(f"needs {self.samples} training labels, saw {int(trained.sum())}")
        if not evaluated:
            raise NotEnoughData("no evaluation with known labels was recorded")
        judged = (self._judge(window, trained, one) for one in evaluated)
        return [finding for finding in judged if finding is not None][:1]

    def _judge(self, window: Window, trained_K: Floats, one: _Labels) -> Finding | None:
        seen_K = np.zeros(len(one.counts_K), dtype=bool)
        seen_K[: len(trained_K)] = trained_K[: len(seen_K)] > 0
        total = max(1.0, float(one.counts_K.sum()))
        # The recorded part of an evaluation may be sorted, so the share of a class is capped.
        p_K = np.minimum(one.counts_K / total, 1 / max(len(trained_K), len(seen_K)))
        absent_K = ~seen_K & ((1 - p_K) ** trained_K.sum() <= self.chance)
        unseen_K = np.where(absent_K, one.counts_K, 0.0)
        share = float(unseen_K.sum() / total)
        if share < self.share:
            return None
        classes = np.flatnonzero(unseen_K).tolist()
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=one.step,
            message=(
                f"{100 * share:.3g} % of the evaluation labels are of {_named(classes)}, "
                f"which none of {int(trained_K.sum()):,} training labels had"
            ),
            evidence={
                "value": share,
                "limit": self.share,
                "classes": [*classes[:SHOWN]],
                "training_labels": int(trained_K.sum()),
                "evaluation_labels": int(one.counts_K.sum()),
                "site": one.site,
            },
            location=one.location,
            mode=Mode.EVAL.value,
        )


def _of_tables(tables: Sequence[TableSeen]) -> tuple[Floats, list[_Labels]]:
    """Return the labels of the last table of training, and of its evaluations."""
    train = next((table for table in reversed(tables) if not table.site), None)
    if train is None or train.label_counts is None:
        raise NotApplicable("no model is a classifier")
    evaluated = [
        _Labels(
            counts_K=np.array(table.label_counts, dtype=np.float64),
            step=table.step,
            site=table.site,
            location=table.location,
        )
        for table in tables
        if table.fit == train.fit and table.site and table.label_counts
    ]
    counts_K = np.array(train.label_counts, dtype=np.float64)
    if len(train.class_weights) == len(counts_K):
        counts_K[np.array(train.class_weights) <= WEIGHTLESS * max(train.class_weights)] = 0.0
    return counts_K, evaluated


def _of_losses(window: Window) -> tuple[Floats, list[_Labels]]:
    """Return the labels of class losses in training, and of the latest evaluation of each site."""
    sampled = [call for call in class_calls(window) if call.label_counts]
    if not sampled:
        raise NotEnoughData("no labels of a class loss were recorded")
    calls = [call for call in sampled if is_classifier(call)]
    if len(calls) < len(sampled):
        raise NotApplicable("not every loss has one class for each example")
    if has_players(window):
        raise NotApplicable("several losses compete with each other")
    known = [one for one in window.seen(Evaluation) if one.label_counts]
    first = {one.site: one.step for one in reversed(known)}
    if len(calls) >= KEPT and _classes(calls[:FIRST]) - _classes(calls[FIRST:]):
        raise NotApplicable("training moves on to other classes")
    trained_K = label_counts(calls)
    latest = {one.site: one for one in known if len(one.label_counts or ()) <= len(trained_K)}
    evaluated = [
        _Labels(
            counts_K=np.array(one.label_counts, dtype=np.float64),
            step=first[one.site],
            site=one.site,
            location=one.location or calls[-1].location,
        )
        for one in latest.values()
    ]
    return trained_K, evaluated


def _classes(calls: Sequence[LossCall]) -> set[int]:
    return set(np.flatnonzero(label_counts(calls)).tolist())


def _named(classes: Sequence[int]) -> str:
    if len(classes) == 1:
        return f"class {classes[0]}"
    shown = ", ".join(map(str, classes[:SHOWN]))
    rest = f" and {len(classes) - SHOWN} others" if len(classes) > SHOWN else ""
    return f"classes {shown}{rest}"
