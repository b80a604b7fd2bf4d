"""DAT536: labels of padding count in the loss."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import PaddingLabeled
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "DAT536",
    needs=[Need(facts=(PaddingLabeled,))],
    explains=("token_ratio", "class_imbalance", "end_never_a_target"),
)
def padding_labeled(
    window: Window,
    *,
    share: float = threshold(0.1, unit="of the labels", source="chosen by hand"),
    looks: int = threshold(2, unit="inspected steps", source="chosen by hand"),
) -> Found | None:
    """Labels of padding count in the loss.

    What it detects:
        A model of Hugging Face, or one with the same arguments, that gets `labels` other than -100
        for tokens that its `attention_mask` marks as padding.

    Why it matters:
        The model learns to predict the label of padding. That is easy, so the loss and the accuracy
        look better than they are, and the real tokens count less.

    Fires:
        Warning when at least `share` of the labels that count belong to padding, in `looks`
        inspected training steps.

    Stays quiet:
        Labels of -100 for padding. One label per sequence. Models that get no `attention_mask`, and
        losses that the script computes itself (see DAT508).

    What to do:
        - Set these labels to -100: `labels[attention_mask == 0] = -100`.
        - Or pad with a collator that does: `DataCollatorForTokenClassification`,
          `DataCollatorForSeq2Seq`.

    Example:
        labels = batch["input_ids"].clone()
        labels[batch["attention_mask"] == 0] = -100
        model(**batch, labels=labels)

    References:
        https://huggingface.co/docs/transformers/main_classes/data_collator
    """
    seen = list(window.seen(PaddingLabeled))
    if not seen:
        raise NotApplicable("no model received labels for padding")
    much = [one for one in seen if one.padded >= share * one.labeled]
    if not much:
        return None
    if len({one.step for one in much}) < looks:
        raise NotEnoughData(f"needs {looks} inspected steps")
    first = much[0]
    part = first.padded / first.labeled
    return Found.of(
        much,
        f"{part:.0%} of the labels that count in the loss of {first.module_type} belong to padding "
        f"({first.padded} of {first.labeled}): they are not -100",
        layers=(first.module,) if first.module else (),
        evidence={"value": part, "limit": share},
    )
