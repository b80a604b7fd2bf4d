"""DAT537: masks are not mirrored together with their images."""

from __future__ import annotations

from mothtrap.core.facts.targets import MirroredTargets
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "DAT537",
    title="masks not mirrored with their images",
    needs=[Need(facts=(MirroredTargets,))],
    passes=True,
    explains=(*UNLEARNED, "overfit", "overtraining", "memorized_rows", "metric_contradicts_loss"),
)
def mirrored_targets(
    window: Window,
    *,
    rows: int = threshold(24, unit="masks", source="chosen by hand"),
    share: float = threshold(
        0.25,
        unit="of the masks",
        source="half of the masks are mirrored if each flip has a chance of one half",
    ),
) -> Found | None:
    """Masks are not mirrored together with their images.

    What it detects:
        A model of images whose predictions fit many masks only, or equally well, when these masks
        are mirrored.

    Why it matters:
        A random flip that is drawn separately for the image and for its mask gives half of the
        images the mask of their mirror image. The model learns to predict both orientations, so
        its masks are blurred, and the loss stays high.

    Fires:
        Warning when, in the latest 3 to 8 inspected batches of a loss of maps, at least `rows`
        masks are unlike their mirror images (correlation at most 0.5) and fit their prediction in
        one of the two orientations (correlation at least 0.5), and at least `share` of them fit as
        well or better when mirrored.

    Stays quiet:
        Before the model predicts masks that fit, and while it predicts nearly the same mask for
        each image. For masks that equal their mirror images, batches of fewer than 4 rows, maps
        below 8 x 8, and losses written by hand.

    What to do:
        - Draw each random transform once, and apply it to the image and to its mask:
          `if random.random() < 0.5: image, mask = hflip(image), hflip(mask)`.
        - PyTorch: Wrap the mask in `torchvision.tv_tensors.Mask` and pass both to one call of a
          transform of `torchvision.transforms.v2`.

    Example:
        image, mask = flip(image), flip(mask)              # two random draws
        image, mask = flip(image, tv_tensors.Mask(mask))   # one draw

    References:
        https://docs.pytorch.org/vision/stable/transforms.html
    """
    for one in window.latest(MirroredTargets, by="location"):
        if one.rows < rows or one.mirrored < share * one.rows:
            continue
        return Found.of(
            one,
            f"{one.mirrored} of {one.rows} masks fit their prediction as well or better when they "
            f"are mirrored {one.direction}: masks are not mirrored together with their images",
            step=0,
            evidence={
                "value": one.mirrored / one.rows,
                "limit": share,
                "rows": one.rows,
                "direction": one.direction,
            },
        )
    return None
