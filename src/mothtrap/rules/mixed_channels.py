"""DAT531: images are reshaped instead of permuted, which mixes their color channels."""

from __future__ import annotations

import numpy as np

from mothtrap.core.facts.layers import ImageChannels
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule("DAT531", needs=[Need(facts=(ImageChannels,))])
def mixed_channels(
    window: Window,
    *,
    ratio: float = threshold(
        0.8,
        unit="times the difference between neighbors",
        source="chosen by hand: in images, neighboring values are the most similar",
    ),
) -> Found | None:
    """Images are reshaped instead of permuted, which mixes their color channels.

    What it detects:
        Images of shape (rows, 3, height, width) in which a value is more similar to the third
        value after it than to the next two. This shows that the red, green, and blue values of a
        pixel lie next to each other in memory, as in images of shape (rows, height, width, 3).

    Why it matters:
        Each channel that the model gets is a third of the image, with red, green, and blue side by
        side. The model can still learn something, so the loss falls, but convolutions see scrambled
        images.

    Fires:
        Warning when the difference between a value and the third value after it is below `ratio`
        times the difference between a value and its neighbors (the median of the inspected
        batches).

    Stays quiet:
        Images without three channels, images smaller than 12 x 12, and images of noise.

    What to do:
        - Change the order of the axes with `permute`: `images.permute(0, 3, 1, 2)`. With
          `reshape` or `view`, values keep their order in memory.
        - For a single image: `image.transpose(2, 0, 1)` in NumPy.

    Example:
        x = images.reshape(-1, 3, 32, 32)        # images has shape (rows, 32, 32, 3)
        x = images.permute(0, 3, 1, 2)

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.permute.html
    """
    seen = list(window.seen(ImageChannels, steps=1))
    if not seen:
        return None
    ratios = [one.third / one.neighbor for one in seen if one.neighbor > 0]
    found = float(np.median(ratios)) if ratios else 1.0
    if found >= ratio:
        return None
    first = seen[0]
    return Found.of(
        first,
        f"{first.module} gets images of shape ({', '.join(map(str, first.shape))}) whose values "
        "are in the order (height, width, channels): values that are three places apart differ "
        f"{found:.2g} times as much as neighbors (limit {ratio:g})",
        last_step=seen[-1].step,
        count=len(seen),
        layers=(first.module,),
        evidence={"ratio": found, "limit": ratio, "looks": len(seen)},
    )
