"""STR736: a layer has fewer units than there are classes, and the model cannot tell them apart."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import ForwardScales
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._confusions import confusion, two_stretches
from mothtrap.rules._loss_calls import class_calls

DENSE = ("Linear", "Dense")
MOST_LAYERS = 8
"""Layers of a plain network. In larger networks, such as transformers, a narrow layer is often only
one of several paths. Chosen by hand."""
LEAST_CLASSES = 3


@rule(
    "STR736",
    title="layer narrower than the classes",
    severity="warning",
    needs=[Need(facts=(ForwardScales, LossCall))],
    explains=(
        "class_imbalance",
        "confusion",
        "loss_not_decreasing",
        "overtraining",
        "stuck_at_chance",
    ),
    passes=True,
)
def narrow_layer(
    window: Window,
    *,
    steps: int = threshold(200, unit="steps", source="chosen by hand"),
    labels: int = threshold(150, unit="labels per stretch", source="chosen by hand"),
    right: float = threshold(0.8, unit="of the training labels", source="chosen by hand"),
    still: float = threshold(0.1, unit="of the wrong labels", source="chosen by hand"),
) -> Found | None:
    """A layer has fewer units than there are classes, and the model cannot tell them apart.

    What it detects:
        A plain classifier with a hidden layer that has fewer units than there are classes, while
        many training labels stay wrong.

    Why it matters:
        All information about a row passes through these few numbers. Some of them are 0 for most
        rows after a ReLU, and dropout removes more. Classes that get the same numbers cannot be
        told apart, however long the training lasts.

    Fires:
        Warning after `steps` steps when all layers are fully connected, a hidden layer has fewer
        units than there are classes, fewer than `right` of the latest `labels` training labels are
        predicted, and the number of wrong ones has fallen by less than `still` since an earlier
        stretch of as many labels.

    Stays quiet:
        For a narrow layer that is enough. While the model still improves. For convolutional and
        recurrent networks, for more than 8 layers, for two classes, and for more than 20.

    What to do:
        - Give the layer more units, at least twice as many as there are classes.
        - Remove dropout next to the narrow layer.

    Example:
        nn.Sequential(nn.Linear(784, 3), nn.ReLU(), nn.Linear(3, 10))
        nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))

    References:
        Goodfellow, Bengio, Courville 2016, Deep learning, section 5.2,
        https://www.deeplearningbook.org/
    """
    looks = [one for one in window.seen(ForwardScales) if len(one.layers) > 1]
    looks = [
        one
        for one in looks
        if len(one.layers) <= MOST_LAYERS and all(each.layer_type in DENSE for each in one.layers)
    ]
    if not looks:
        raise NotApplicable("no model is a plain network with hidden layers")
    calls = class_calls(window, binary=False)
    if window.total_steps < steps:
        raise NotEnoughData(f"needs {steps} steps, saw {window.total_steps}")
    early, late = two_stretches(calls, labels)
    before_KK, after_KK = confusion(early), confusion(late)
    if before_KK is None or after_KK is None:
        raise NotEnoughData(f"needs two stretches of {labels} predicted training labels")
    classes = int((after_KK.sum(axis=1) > 0).sum())
    narrow = min(looks[-1].layers[1:], key=lambda each: each.fan_in)
    if classes < LEAST_CLASSES or narrow.fan_in >= classes:
        return None
    share = float(np.trace(after_KK) / after_KK.sum())
    wrong_before = 1 - float(np.trace(before_KK) / before_KK.sum())
    if share >= right or 1 - share < (1 - still) * wrong_before:
        return None
    values = "1 value" if narrow.fan_in == 1 else f"{narrow.fan_in} values"
    return Found.of(
        late,
        f"{narrow.layer} gets only {values} to distinguish {classes} classes, and {share:.0%} of "
        f"the latest training labels are predicted (limit {right:.0%}), "
        f"{1 - wrong_before:.0%} before",
        layers=(narrow.layer,),
        evidence={"value": share, "limit": right, "units": narrow.fan_in, "classes": classes},
        location=narrow.location,
    )
