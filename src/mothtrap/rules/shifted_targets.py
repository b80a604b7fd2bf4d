"""DAT539: masks are not cropped or moved together with their images."""

from __future__ import annotations

from mothtrap.core.facts.targets import ShiftedTargets
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "DAT539",
    title="masks not cropped with their images",
    needs=[Need(facts=(ShiftedTargets,))],
    passes=True,
    explains=(
        *UNLEARNED,
        *("overfit", "overtraining", "memorized_rows", "metric_contradicts_loss"),
        "mirrored_targets",  # some shifted masks fit when they are mirrored
    ),
)
def shifted_targets(
    window: Window,
    *,
    rows: int = threshold(24, unit="masks", source="chosen by hand"),
    share: float = threshold(0.5, unit="of the masks", source="chosen by hand"),
    drift: float = threshold(0.5, unit="of the mean distance", source="chosen by hand"),
) -> Found | None:
    """Masks are not cropped or moved together with their images.

    What it detects:
        A model of images whose predictions fit most masks better at another place, each mask in
        another direction.

    Why it matters:
        A random crop, shift, or rotation that is drawn separately for the image and for its mask
        moves the mask away from its object. The model learns the mean of all possible masks, so its
        masks are blurred, and the loss stays high.

    Fires:
        Warning when, in the latest 3 to 8 compared batches of a loss of maps, at least `rows` masks
        fit their prediction at some place (correlation at least 0.5), and at least `share` of them
        fit better there (by 0.1) than where they are. The place is at least 2 of 32 places away,
        and the mean of all shifts is at most `drift` times their mean length.

    Stays quiet:
        Before the model predicts masks that fit, and while it predicts nearly the same mask for
        each image. If all masks are shifted in the same direction. For shifts of more than a
        quarter of the size, batches of fewer than 4 rows, maps below 8 x 8, and losses written by
        hand.

    What to do:
        - Draw each random crop once, and apply it to the image and to its mask:
          `i, j, h, w = RandomCrop.get_params(image, size)`, then `crop(image, i, j, h, w)` and
          `crop(mask, i, j, h, w)`.
        - PyTorch: Wrap the mask in `torchvision.tv_tensors.Mask` and pass both to one call of a
          transform of `torchvision.transforms.v2`.

    Example:
        image, mask = crop(image), crop(mask)              # two random draws
        image, mask = crop(image, tv_tensors.Mask(mask))   # one draw

    References:
        https://docs.pytorch.org/vision/stable/transforms.html
    """
    for one in window.latest(ShiftedTargets, by="location"):
        few = one.rows < rows or one.shifted < share * one.rows
        if few or one.drift > drift * one.distance:
            continue
        return Found.of(
            one,
            f"{one.shifted} of {one.rows} masks fit their prediction better at another place, "
            f"{one.distance:.0%} of the image away on average and each in another direction: masks "
            "are not cropped or moved together with their images",
            step=0,
            evidence={
                "value": one.shifted / one.rows,
                "limit": share,
                "rows": one.rows,
                "distance": one.distance,
            },
        )
    return None
