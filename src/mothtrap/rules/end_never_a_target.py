"""DAT521: a sequence model is never trained to end a sequence."""

from __future__ import annotations

from collections import Counter

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import by_place, class_calls


@rule(
    "DAT521",
    title="end of sequence is never a target",
    severity="info",
    needs=[Need(facts=(LossCall,))],
)
def end_never_a_target(
    window: Window,
    *,
    rows: int = threshold(32, unit="sequences", source="chosen by hand"),
    after_share: float = threshold(0.99, unit="of the sequences", source="chosen by hand"),
    last_share: float = threshold(
        0.5, unit="of the sequences", source="chosen by hand: most texts end with a full stop"
    ),
) -> Found | None:
    """A sequence model is never trained to end a sequence.

    What it detects:
        Next-token prediction on sequences of different lengths. The token after the last word,
        always the same token, is never a target, because the loss ignores it.

    Why it matters:
        The model never learns when to stop. Generated text runs on to the length limit.

    Fires:
        Info when at least `rows` sequences that are shorter than others of their batch were
        observed, the same token follows at least `after_share` of them and is ignored by the loss,
        and the most frequent last target belongs to less than `last_share` of them.

    Stays quiet:
        For sequences that all end with the same target token. For batches of sequences of one
        length. For models whose targets are not the next tokens.

    What to do:
        - Add an end-of-sequence token to each sequence before padding, and keep it as a target.
        - If the padding token is the end-of-sequence token, ignore padding by its attention mask
          (`labels[attention_mask == 0] = -100`) and not by its token id, or use another padding
          token.

    Example:
        tokenizer.pad_token = tokenizer.eos_token
        labels[labels == tokenizer.pad_token_id] = -100       # also ignores the end of each text

    References:
        https://huggingface.co/docs/transformers/main_classes/data_collator
    """
    with_targets = [call for call in class_calls(window, binary=False) if call.targets is not None]
    if not with_targets:
        raise NotEnoughData("no targets of a class loss were recorded")
    looked = [call for call in with_targets if call.targets and call.targets.endings is not None]
    if not looked:
        raise NotApplicable("no next-token loss on sequences of different lengths was recorded")
    for calls in by_place(looked):
        every = [c.targets.endings for c in calls if c.targets is not None and c.targets.endings]
        sequences = sum(seen[0] for seen in every)
        if sequences < rows:
            continue
        last: Counter[int] = Counter()
        after: Counter[int] = Counter()
        for _, last_token, last_rows, after_token, after_rows in every:
            last[last_token] += last_rows
            after[after_token] += after_rows
        token, count = after.most_common(1)[0]
        ends = last.most_common(1)[0][1] / sequences
        if count < after_share * sequences or ends >= last_share:
            continue
        return Found.of(
            calls,
            f"{count} of {sequences} sequences are followed by token {token}, which the loss "
            f"ignores, and no end token is a target: the most frequent last target ends {ends:.0%} "
            f"of them (limit {last_share:.0%}), so the model does not learn to stop",
            evidence={"sequences": sequences, "token": token, "share": ends, "limit": last_share},
        )
    return None
