"""DAT541: a collator overwrites labels that the loss was to ignore."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.trainers import LabelsReplaced, TrainerSettings
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "DAT541",
    needs=[Need(facts=(LabelsReplaced, TrainerSettings))],
)
def labels_overwritten(
    window: Window,
    *,
    share: float = threshold(
        0.2, unit="of the ignored labels", source="chosen by hand: padding may differ"
    ),
) -> Found | None:
    """A collator overwrites labels that the loss was to ignore.

    What it detects:
        Rows of a dataset with labels of -100, such as masked prompts, that have other labels in the
        batch. `DataCollatorForLanguageModeling` replaces all labels with the input tokens.

    Why it matters:
        The dataset masks the prompts, so that only the answers are trained. After the collator, the
        loss counts every token of the prompts, which are often much longer than the answers.

    Fires:
        Warning when, in the first two batches, at least `share` of the labels that were to be
        ignored count.

    Stays quiet:
        For rows without labels, for masked language models, and in worker processes of a loader.

    What to do:
        - Use a collator that keeps the labels: `DataCollatorForSeq2Seq(tokenizer)`, or
          `default_data_collator` if all rows have the same length.
        - Or mask the prompts in a collator of your own.

    Example:
        DataCollatorForLanguageModeling(tokenizer, mlm=False)     # replaces `labels`
        DataCollatorForSeq2Seq(tokenizer)                         # pads them with -100

    References:
        https://huggingface.co/docs/transformers/main_classes/data_collator
    """
    if not any(window.seen(TrainerSettings)):
        raise NotApplicable("no trainer was used")
    for one in window.seen(LabelsReplaced):
        if one.ignored and one.counted >= share * one.ignored:
            return Found.of(
                one,
                f"`{one.collator}` overwrites the labels of the rows: of {one.ignored} labels that "
                f"the loss was to ignore in the first {one.calls} batches, {one.counted} count",
                evidence={"ignored": one.ignored, "counted": one.counted, "limit": share},
            )
    return None
