"""STR712: a sequence model sees the tokens that it must predict."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import (
    by_place,
    class_calls,
    entropy,
    finding_of_calls,
    label_counts,
    losses_at,
    made_at,
)


@frozen
class CausalLeak(Rule):
    """A sequence model sees the tokens that it must predict.

    What it detects:
        Targets of a class loss, hard or smoothed, that equal the integer inputs at the same
        position (labels that were not shifted), or that a decoder receives together with the
        encoder's tokens. Also targets that equal the inputs at the next position while unmasked
        attention or a bidirectional recurrent layer reveals that position.

    Why it matters:
        The input contains the answer. The model learns to copy it, the loss falls towards 0, and
        the model learns nothing about the sequence. During generation the answer is missing, and
        the output is useless.

    Fires:
        Warning when in `calls` observed calls all targets that are not ignored equal the inputs at
        the same position. Error once the loss is below `copying_ratio` of the entropy of the
        tokens, if the model is causal: it has masked attention or a unidirectional recurrent
        layer. Error when the targets are the next inputs and every attention layer over the
        sequence is unmasked, or every recurrent layer is bidirectional.

    Stays quiet:
        For masked language models, whose inputs are replaced at the predicted positions. For
        shifted labels with a causal mask or a unidirectional layer. For models with both masked
        and unmasked attention, such as encoder-decoder models. For models that get the sequence
        twice, shifted and unshifted, to reconstruct it. For sequences of one token.

    What to do:
        - Shift the labels: predict `tokens[:, 1:]` from `tokens[:, :-1]`. If the model shifts
          labels internally, pass them unshifted. Give a decoder `target[:, :-1]`.
        - Give a decoder the tokens before its targets: `target[:, :-1]`, or, in a loop, the token
          of the previous step.
        - PyTorch: Mask the attention: `is_causal=True`, or a mask of `-inf` above the diagonal.
        - PyTorch: Use unidirectional recurrent layers (`bidirectional=False`) to predict the
          next token.
        - Keras: Mask the attention: `MultiHeadAttention(...)(x, x, use_causal_mask=True)`.
        - Keras: Use recurrent layers without `Bidirectional` to predict the next token.
        - JAX: Mask the attention: `is_causal=True`, or a mask of `-inf` above the diagonal.
        - JAX: Use unidirectional recurrent layers to predict the next token.
        - In a masked language model, replace the labeled tokens by the mask token:
          `DataCollatorForLanguageModeling(tokenizer, mlm=True)`.

    Example:
        loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())     # copies its input
        loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())

    References:
        Vaswani et al. 2017, Attention is all you need, section 3.1,
        https://arxiv.org/abs/1706.03762
    """

    code = "STR712"
    needs = (
        Need(facts=(LossCall,)),
        Need(scalars=("loss",), optional=True),
    )
    explains = (
        "loss_not_decreasing",
        "too_good_to_be_true",
        "learning_rate_too_low",
    )

    calls: int = threshold(
        2, unit="observed calls", source="chosen by hand: one batch may agree by chance"
    )
    copying_ratio: float = threshold(
        0.3,
        unit="of the entropy of the tokens",
        source="chosen by hand: the loss of language models stays above half of it",
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the targets and inputs of each call site."""
        looked = [
            call
            for call in class_calls(window, binary=False)
            if call.targets is not None and call.targets.input_offsets is not None
        ]
        if not looked:
            if any(call.targets is not None for call in class_calls(window, binary=False)):
                raise NotApplicable("the targets do not align with integers in the model's input")
            raise NotEnoughData("no targets of a class loss were recorded")
        found = [self._judge(window, calls) for calls in by_place(looked)]
        return [finding for finding in found if finding is not None][:1]

    def _judge(self, window: Window, calls: list[LossCall]) -> Finding | None:
        decoded = all(call.targets is not None and call.targets.decoded for call in calls)
        same = decoded or all(_offsets(call) == (0,) for call in calls)
        ahead = {call.looks_ahead for call in calls} - {None, "", "causal"}
        if same and len(calls) >= self.calls:
            return self._same_position(window, calls, decoded=decoded)
        if len(ahead) == 1 and len(calls) >= self.calls and all(_offsets(c) == (1,) for c in calls):
            recurrent = ahead == {"recurrent"}
            what = "attention without a mask reveals"
            if recurrent:
                what = "bidirectional recurrent layers reveal"
            _, _, mask, one_way, _ = self.fixes(window)
            return finding_of_calls(
                self,
                window,
                calls,
                Severity.ERROR,
                f"the targets are the next inputs, and {what} them to the model"
                + ("" if recurrent else made_at(calls[0], "attention")),
                {"offset": 1, "looks_ahead": str(ahead.pop())},
                fixes=(one_way if recurrent else mask,),  # the labels are shifted already
            )
        return None

    def _same_position(self, window: Window, calls: list[LossCall], *, decoded: bool) -> Finding:
        smoothed = not any(call.label_counts for call in calls)  # their loss has another scale
        chance = 0.0 if smoothed else entropy(label_counts(calls))
        loss_S = losses_at(window, calls)
        latest = float(np.median(loss_S[-3:])) if len(loss_S) else None
        is_causal = any(call.looks_ahead == "causal" for call in calls)
        both_ways = {call.looks_ahead for call in calls if call.looks_ahead} == {"attention"}
        shift, before, *_, hide = self.fixes(window)
        copied = is_causal and latest is not None and latest < self.copying_ratio * chance
        shown = f"; the loss is {latest:.3g}, the entropy of the tokens {chance:.3g}"
        return finding_of_calls(
            self,
            window,
            calls,
            Severity.ERROR if copied else Severity.WARNING,
            "the targets are the inputs "
            + ("of the decoder " if decoded else "")
            + "at the same position: the labels are not shifted"
            + (shown if latest is not None and not smoothed else ""),
            {"offset": 0, "value": latest, "entropy": chance, "limit": self.copying_ratio},
            fixes=(before,) if decoded else (hide, shift) if both_ways else None,
        )


def _offsets(call: LossCall) -> tuple[int, ...]:
    return (call.targets.input_offsets or ()) if call.targets is not None else ()
