"""DAT534: a weighted sampler has weights for only some of the samples."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.data import LoaderBegan
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "DAT534",
    title="samples without a weight",
    severity="error",
    needs=[Need(facts=(LoaderBegan,))],
    explains=(
        *UNLEARNED,
        "labels_of_one_class",
        "labels_unrelated",
        "memorized_rows",
        "overfit",
        "overtraining",
        "repeated_batch",
        "too_good_to_be_true",
        "too_little_data",
        "unseen_classes",
    ),
)
def samples_without_weight(
    window: Window,
    *,
    few: float = threshold(
        0.5,
        unit="weights per sample",
        source="chosen by hand: with more weights, most of the samples are still drawn",
    ),
) -> Found | None:
    """A weighted sampler has weights for only some of the samples.

    What it detects:
        A `WeightedRandomSampler` with fewer weights than the dataset has samples, usually one
        weight for each class.

    Why it matters:
        The sampler draws indices from 0 to the number of weights. Samples with a higher index are
        never drawn, so the model trains on the first few samples again and again.

    Fires:
        Error at the first pass over such a loader, if there are at most `few` weights per sample.
        Warning if there are more.

    Stays quiet:
        For other samplers, and when the length of the dataset is unknown.

    What to do:
        - Give each sample the weight of its class: `weights = class_weights[labels]`, then
          `WeightedRandomSampler(weights, len(weights))`.

    Example:
        sampler = WeightedRandomSampler(class_weights, len(data))            # one per class
        sampler = WeightedRandomSampler(class_weights[labels], len(data))    # one per sample

    References:
        https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.WeightedRandomSampler
    """
    weighted = [one for one in window.seen(LoaderBegan) if one.weights and one.samples]
    if not weighted:
        raise NotApplicable("no loader draws its samples by weight")
    for one in weighted:
        weights, samples = one.weights or 0, one.samples or 0
        if weights < samples:
            return Found.of(
                [one],
                f"the sampler of {one.loader} has {weights:,} weights for {samples:,} samples, so "
                f"it only draws samples 0 to {weights - 1:,}",
                severity="error" if weights <= few * samples else "warning",
                evidence={"value": weights / samples, "weights": weights, "samples": samples},
            )
    return None
