"""DAT543: a masked language model is trained on the tokens that it sees."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import by_place, class_calls, predicts_tokens


@rule(
    "DAT543",
    needs=[Need(facts=(LossCall,))],
    explains=("too_good_to_be_true",),
)
def visible_tokens_labeled(
    window: Window,
    *,
    calls: int = threshold(2, unit="observed calls", source="chosen by hand"),
    share: float = threshold(
        0.5, unit="of the labels", source="chosen by hand: 10 % in BERT (Devlin et al. 2019)"
    ),
    masked: float = threshold(
        0.6, unit="of the other labels", source="chosen by hand: 89 % in BERT (8 of 9)"
    ),
) -> Found | None:
    """A masked language model is trained on the tokens that it sees.

    What it detects:
        Labels of a masked language model at positions that are not masked. The model receives the
        token there, and only has to copy it.

    Why it matters:
        Most of the loss is the cost of copying, which falls to 0 at once. The loss looks far better
        than it is, and the masked tokens, from which the model learns, have little weight.

    Fires:
        Warning when in `calls` observed calls at least `share` of the labels equal the input token
        at the same position, and at `masked` of the other labels the input is one and the same
        token, the mask.

    Stays quiet:
        When all labels equal the inputs (see STR712), and when the inputs at the other labels
        differ, as for corrections of a text. For fewer than 20 classes.

    What to do:
        - PyTorch: Ignore the tokens that are not masked:
          `labels = torch.where(input_ids == mask_token_id, labels, -100)`, or use
          `DataCollatorForLanguageModeling`.
        - Keras, JAX: Give the tokens that are not masked the weight 0 in the loss.

    Example:
        labels = input_ids.clone()                    # all tokens
        input_ids[masked] = mask_token_id
        labels[~masked] = -100                        # only the masked tokens

    References:
        Devlin et al. 2019, BERT, section 3.1, https://arxiv.org/abs/1810.04805
    """
    sampled = [call for call in class_calls(window, binary=False) if call.targets is not None]
    if not sampled:
        raise NotEnoughData("no targets of a class loss were recorded")
    looked = [c for c in sampled if c.targets is not None and c.targets.input_offsets is not None]
    if not looked:
        raise NotApplicable("no labels beside input tokens were recorded")
    for same in by_place(looked):
        shown = [c.targets.shown for c in same if c.targets is not None and c.targets.shown]
        if len(shown) < calls or 2 * len(shown) < len(same) or not predicts_tokens(same[0]):
            continue
        labels, equal, most = (sum(one[place] for one in shown) for place in range(3))
        if equal < share * labels or most < masked * (labels - equal):
            continue
        return Found.of(
            same,
            f"{equal / labels:.0%} of the labels equal the token at the same position, which the "
            f"model sees; only {1 - equal / labels:.0%} are at masked positions",
            evidence={"labels": labels, "visible": equal, "masked": most, "limit": share},
        )
    return None
