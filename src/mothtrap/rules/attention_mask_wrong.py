"""STR733: an attention mask hides the words instead of the padding, or the wrong axis."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.layers import PaddingWeights
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "STR733",
    title="wrong attention mask",
    needs=[Need(facts=(PaddingWeights,))],
    explains=(
        *UNLEARNED,
        *("constant_output", "epsilon_too_large", "vanishing_gradient", "attention_collapse"),
        *("token_ratio", "zero_gradient", "loss_oscillating"),
    ),
)
def attention_mask_wrong(
    window: Window,
    *,
    rows: int = threshold(8, unit="padded rows", source="chosen by hand"),
    share: float = threshold(0.95, unit="of the padded rows", source="chosen by hand"),
) -> Found | None:
    """An attention mask hides the words instead of the padding, or the wrong axis.

    What it detects:
        An attention mask that hides every word of a sequence and shows only the padding. Also a
        mask that hides the padding as queries instead of keys, so that all words attend to it.

    Why it matters:
        With an inverted mask, all positions see the same padding, and the words of other positions
        never reach an output. With a mask along the queries, the outputs for words depend on the
        padding, as without a mask.

    Fires:
        Error when at least `rows` padded rows were inspected, and in at least `share` of them only
        the padding gets attention. Warning when in at least `share` of them no key is hidden from
        words, but the weights of each padding query are exactly equal.

    Stays quiet:
        If the padding is hidden, or nothing is. If the padding token also occurs inside sequences,
        in sequences of fewer than 4 tokens, and if two embedded sequences have the length of the
        keys. For attention written without a matrix product.

    What to do:
        - PyTorch: Invert the mask. `key_padding_mask` of `nn.MultiheadAttention` and `masked_fill`
          take True for padding: `mask = tokens == pad`. `F.scaled_dot_product_attention` takes True
          for words.
        - Add the axis of the heads and that of the queries in front of the keys:
          `mask[:, None, None, :]`.

    Example:
        scores = scores.masked_fill(tokens[:, None, None] != pad, float("-inf"))
        scores = scores.masked_fill(tokens[:, None, None] == pad, float("-inf"))

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
    """
    every = list(window.seen(PaddingWeights, steps=1))
    if not every:
        raise NotApplicable("no attention to padded sequences was recorded")
    for one in every:
        if one.rows < rows:
            continue
        if one.inverted >= share * one.rows:
            return Found.of(
                one,
                f"in {one.inverted} of {one.rows} padded rows, attention sees only the padding "
                f"(token {one.token}): the mask hides the words instead",
                severity="error",
                step=0,
                count=one.looks,
                evidence={"value": one.inverted / one.rows, "limit": share, "rows": one.rows},
                fixes=(0,),
            )
        if one.by_query >= share * one.rows:
            return Found.of(
                one,
                f"in {one.by_query} of {one.rows} padded rows, all words attend to the padding "
                f"(token {one.token}), and the padding attends to all tokens equally: the mask "
                "runs along the queries instead of the keys",
                step=0,
                count=one.looks,
                evidence={"value": one.by_query / one.rows, "limit": share, "rows": one.rows},
                fixes=(1,),
            )
    return None
