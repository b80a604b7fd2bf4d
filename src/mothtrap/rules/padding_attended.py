"""STR732: a model attends to padding, because it gets no attention mask."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import UnmaskedPadding
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "STR732",
    needs=[Need(facts=(UnmaskedPadding,))],
    explains=("token_ratio", "constant_output", "stuck_at_chance", "loss_not_decreasing"),
)
def padding_attended(
    window: Window,
    *,
    share: float = threshold(0.1, unit="of the tokens", source="chosen by hand"),
    looks: int = threshold(2, unit="inspected steps", source="chosen by hand"),
) -> Found | None:
    """A model attends to padding, because it gets no attention mask.

    What it detects:
        A model of Hugging Face, or one with the same arguments, that gets padded `input_ids`, but
        no `attention_mask`, or a mask of ones.

    Why it matters:
        Without a mask, every token attends to the padding, too. The output for a sequence then
        depends on how far it is padded, which differs from batch to batch.

    Fires:
        Warning when the padding token of the model's configuration fills at least `share` of the
        tokens at the beginnings and ends of rows, in `looks` inspected training steps.

    Stays quiet:
        Causal attention, in which no token sees the padding after it. Models without a
        `pad_token_id`. Tokens that also occur inside sequences.

    What to do:
        - Pass the mask that the tokenizer returns: `model(input_ids, attention_mask=mask)`.
        - If the mask is all ones, compute it from the tokens: `mask = input_ids != pad_token_id`.

    Example:
        model(batch["input_ids"], labels=batch["labels"])
        model(batch["input_ids"], attention_mask=batch["attention_mask"], labels=batch["labels"])

    References:
        https://huggingface.co/docs/transformers/glossary#attention-mask
    """
    seen = list(window.seen(UnmaskedPadding))
    if not seen:
        raise NotApplicable("no model received padding without a mask")
    much = [one for one in seen if one.share >= share]
    if not much:
        return None
    if len({one.step for one in much}) < looks:
        raise NotEnoughData(f"needs {looks} inspected steps")
    first = much[0]
    without = "a mask of ones" if first.masked else "no attention_mask"
    return Found.of(
        much,
        f"{first.module_type} gets {without}, but {first.share:.0%} of its tokens are padding "
        f"(token {first.token}, in {first.padded_rows} of {first.rows} rows)",
        layers=(first.module,) if first.module else (),
        evidence={"value": first.share, "limit": share, "token": first.token},
        fixes=(1,) if first.masked else (0,),
    )
