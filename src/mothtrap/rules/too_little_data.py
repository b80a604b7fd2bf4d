"""DAT512: there are too few samples to learn from."""

from __future__ import annotations

import math

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import LoaderBegan, RowsShared, TargetOrder
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need, any_of
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._evaluations import evaluated

LATEST = 3
"""Losses that are averaged before training and evaluation are compared."""


@frozen
class TooLittleData(Rule):
    """There are too few samples to learn from.

    What it detects:
        Training data with few samples per class, or with few samples relative to the parameters of
        a model that does much better on them than in evaluation.

    Why it matters:
        A model with more parameters than samples can memorize each sample. Its predictions for new
        samples then depend on chance: on the split and on the seed.

    Fires:
        Info when there are fewer than `per_class` samples for each class seen, or more than
        `parameters_per_sample` parameters for each sample while the evaluation loss is `gap_ratio`
        times the training loss.

    Stays quiet:
        While the number of samples is not known: no loader reported it, and rows that the script
        slices by hand have not recurred. Models that do as well in evaluation. Samples with many
        labels, such as sentences or masks, for which the number of labels counts.

    What to do:
        - Get more data, or augment the existing data.
        - Start from a pretrained model, and train only its last layer.
        - Use a smaller model, weight decay or dropout, and stop when the evaluation loss is lowest.
        - Use cross-validation: a single small split is not reliable.

    Example:
        model = ResNet50(classes=10)               # 24 million parameters, 200 images
        model = pretrained_backbone(frozen=True)   # and a new last layer

    References:
        Beleites et al. 2013, Sample size planning for classification models,
        https://arxiv.org/abs/1211.1323
    """

    code = "DAT512"
    needs = (
        Need(facts=(TargetOrder,)),
        *any_of(Need(facts=(LoaderBegan,)), Need(facts=(RowsShared,))),
        Need(kinds=("gradient",), statistics=("l2",), optional=True),
        Need(facts=(Evaluation,), scalars=("loss",), optional=True),
        Need(facts=(LossCall,), optional=True),
    )

    per_class: float = threshold(30.0, unit="samples per class", source="chosen by hand")
    parameters_per_sample: float = threshold(
        100.0, unit="parameters per sample", source="chosen by hand: two orders of magnitude"
    )
    gap_ratio: float = threshold(
        2.0, unit="times the training loss", source="chosen by hand: dropout alone gives less"
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the number of samples with classes and parameters."""
        known = _samples(window)
        if known is None:
            raise NotEnoughData("the number of samples is unknown")
        samples, location = known
        classes = _classes(window)
        labels = samples * _labels_per_sample(window)
        if labels < classes:
            raise NotEnoughData(f"counted {labels:g} labels, fewer than the {classes} classes")
        if classes > 1 and labels < self.per_class * classes:
            said = f"only {samples} training samples for {classes} classes"
            return [self._finding(window, said, location, samples=samples, classes=classes)]
        parameters, gap = _parameters(window), _gap(window)
        if parameters > self.parameters_per_sample * samples and gap > self.gap_ratio:
            said = (
                f"{parameters} parameters train on only {samples} samples, and the evaluation "
                f"loss is {gap:.3g} times the training loss"
            )
            numbers = {"samples": samples, "parameters": parameters, "gap": gap}
            return [self._finding(window, said, location, **numbers)]
        return []

    def _finding(
        self, window: Window, said: str, location: str | None, **evidence: float
    ) -> Finding:
        return self.finding(
            window,
            severity=Severity.INFO,
            step=0,
            message=said,
            evidence=dict(evidence),
            location=location,
            confidence="medium",
        )


def _samples(window: Window) -> tuple[int, str | None] | None:
    """Return the number of training samples, and the line that iterates over them."""
    trained = {order.loader for order in window.seen(TargetOrder)}
    told = [
        (began.samples, began.location)
        for began in window.seen(LoaderBegan)
        if began.loader in trained and began.samples
    ]
    rows = [(seen.train_rows, None) for seen in window.seen(RowsShared)]
    return max(told or rows, key=lambda pair: pair[0], default=None)


def _classes(window: Window) -> int:
    """Return the number of classes in the targets, or 0."""
    classes = 0
    for order in window.seen(TargetOrder):
        if len(set(order.counts)) > 1:  # else they number the rows of a batch
            seen_K = np.array(order.counts).sum(axis=0) > 0
            classes = max(classes, int(seen_K.sum()))
    return classes


def _labels_per_sample(window: Window) -> float:
    """Return the minimum number of labels per sample in a training loss; 1 if unknown."""
    trained = {order.loader for order in window.seen(TargetOrder)}
    rows = max(
        (one.batch_size or 0 for one in window.seen(LoaderBegan) if one.loader in trained),
        default=0,
    )
    labels = [
        call.targets.count
        for call in window.seen(LossCall)
        if call.mode is Mode.TRAIN and call.targets is not None
    ]
    return max(1.0, min(labels) / rows) if rows and labels else 1.0


def _parameters(window: Window) -> int:
    matrix = window.matrix("gradient", "l2")
    return sum(math.prod(tensor.shape) for tensor in matrix.tensors) if matrix is not None else 0


def _gap(window: Window) -> float:
    """Return the latest evaluation losses relative to the training losses before them.

    Both are means over rows, even if the evaluation sums a loss that training averages.
    """
    try:
        [seen] = evaluated(window)
    except (NotEnoughData, ValueError):  # ValueError: there are several evaluations
        return 0.0
    value, train = seen.value_E[-LATEST:].mean(), seen.train_E[-LATEST:].mean()
    return float(value / train) if train > 0 else 0.0
