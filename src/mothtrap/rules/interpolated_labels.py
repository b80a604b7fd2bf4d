"""DAT538: label maps were resized with interpolation, which makes up classes."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.data import BorderClasses
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED

NAMED = 5
"""Maximum number of classes that a message names."""


@rule(
    "DAT538",
    needs=[Need(facts=(BorderClasses,))],
    explains=(*UNLEARNED, "overfit", "metric_contradicts_loss"),
)
def interpolated_labels(
    window: Window,
    *,
    classes: int = threshold(
        2, unit="classes", source="chosen by hand: a single class may be drawn as a border"
    ),
) -> Found | None:
    """Label maps were resized with interpolation, which makes up classes.

    What it detects:
        A segmentation loss with several classes that occur only as thin lines between a class with
        a lower and a class with a higher number.

    Why it matters:
        Bilinear interpolation of class numbers gives numbers in between: at the border of class 0
        and class 4, it makes up the classes 1, 2, and 3. The model is trained on wrong labels at
        every border, and metrics count classes that the images do not contain.

    Fires:
        Warning when, in label maps of five batches, at least `classes` classes have at least 30
        places each, of which 95 % have both a lower and a higher class next to them, while at least
        2 other classes fill areas.

    Stays quiet:
        For label maps with a single class of this kind, such as the border of cells. For maps below
        8 x 8, labels that the loss ignores, and maps of numbers that are not classes.

    What to do:
        - Resize label maps with `mode="nearest"`, in torchvision with
          `interpolation=InterpolationMode.NEAREST`, in OpenCV with `cv2.INTER_NEAREST`.
        - PyTorch: Wrap the mask in `torchvision.tv_tensors.Mask`: transforms of
          `torchvision.transforms.v2` then resize it without interpolation.

    Example:
        mask = F.interpolate(mask, size=(256, 256), mode="bilinear").long()
        mask = F.interpolate(mask, size=(256, 256), mode="nearest").long()

    References:
        https://docs.pytorch.org/vision/stable/transforms.html
    """
    every = list(window.seen(BorderClasses, steps=1))
    if not every:
        raise NotApplicable("no loss of label maps with more than two classes was recorded")
    for one in every:
        if len(one.classes) < classes or one.others < classes:
            continue
        names = ", ".join(map(str, one.classes[:NAMED]))
        more = ", and more" if len(one.classes) > NAMED else ""
        return Found.of(
            one,
            f"the classes {names}{more} occur only as thin lines between a lower and a higher "
            f"class ({one.places} places in {one.looks} inspected batches): label maps were "
            "resized with interpolation",
            step=0,
            count=one.looks,
            evidence={
                "value": len(one.classes),
                "limit": classes,
                "classes": list(one.classes),
                "places": one.places,
            },
        )
    return None
