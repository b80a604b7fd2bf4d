"""STR712: a model of sequences is given what it shall predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
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


@dataclass(frozen=True)
class CausalLeak(Rule):
    """A model of sequences is given what it shall predict.

    What it detects:
        Targets of a class loss that are the model's integer inputs at the same position
        (labels that were not shifted), or at the next position while attention without a
        mask, or a recurrent layer that runs both ways, shows the model that position.

    Why it matters:
        The answer stands in the input: the model learns to copy it, the loss falls towards
        0, and nothing is learned about the sequence. When text is generated the answer is
        not there, and the output is worthless.

    Fires:
        When in `calls` looks all targets that count are the inputs at the same position: a
        warning, and an error once the loss is below `copying_ratio` of the entropy of the
        tokens, if the model is one of sequences: masked attention or one one-way layer.
        Error when the targets are the next inputs, and every attention over the
        sequence is unmasked or every recurrent layer runs both ways.

    Stays quiet:
        Masked language models, whose inputs differ from the targets where these count;
        labels shifted by one under a causal mask or a one-way layer; models with masked
        and unmasked attention, such as an encoder with a decoder; models that are given the
        sequence twice, shifted and not, as to reconstruct it; sequences of one token.

    What to do:
        - Shift the labels: predict `tokens[:, 1:]` from `tokens[:, :-1]`, or give the
          labels unshifted to a model that shifts them itself, but not twice.
        - PyTorch: Mask the attention: `is_causal=True`, or a mask of `-inf` above the diagonal.
        - PyTorch: Use one-way recurrent layers (`bidirectional=False`) to predict the next
          token.
        - Keras: Mask the attention: `MultiHeadAttention(...)(x, x, use_causal_mask=True)`.
        - Keras: Use recurrent layers without `Bidirectional` to predict the next token.
        - JAX: Mask the attention: `is_causal=True`, or a mask of `-inf` above the diagonal.
        - JAX: Use one-way recurrent layers to predict the next token.

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
        2, unit="looks at the targets", source="chosen by hand: one batch may agree by chance"
    )
    copying_ratio: float = threshold(
        0.3,
        unit="of the entropy of the tokens",
        source="chosen by hand: models of text stay above half of it",
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare what was seen of targets and inputs, call site by call site."""
        looked = [
            call
            for call in class_calls(window, binary=False)
            if call.targets is not None and call.targets.input_offsets is not None
        ]
        if not looked:
            if any(call.targets is not None for call in class_calls(window, binary=False)):
                raise NotApplicable("the targets do not lie along integers that the model is given")
            raise NotEnoughData("no targets of a class loss were seen")
        found = [self._judge(window, calls) for calls in by_place(looked)]
        return [finding for finding in found if finding is not None][:1]

    def _judge(self, window: Window, calls: list[LossCall]) -> Finding | None:
        same = all(_offsets(call) == (0,) for call in calls)
        ahead = {call.looks_ahead for call in calls} - {None, "", "causal"}
        if same and len(calls) >= self.calls:
            return self._same_position(window, calls)
        if len(ahead) == 1 and len(calls) >= self.calls and all(_offsets(c) == (1,) for c in calls):
            recurrent = ahead == {"recurrent"}
            what = "attention that is nowhere masked shows"
            if recurrent:
                what = "recurrent layers that run both ways show"
            _, mask, one_way = self.fixes(window)
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

    def _same_position(self, window: Window, calls: list[LossCall]) -> Finding:
        chance = entropy(label_counts(calls))
        loss_S = losses_at(window, calls)
        latest = float(np.median(loss_S[-3:])) if len(loss_S) else None
        is_causal = any(call.looks_ahead == "causal" for call in calls)
        copied = is_causal and latest is not None and latest < self.copying_ratio * chance
        shown = f"; the loss is {latest:.3g}, the entropy of the tokens {chance:.3g}"
        return finding_of_calls(
            self,
            window,
            calls,
            Severity.ERROR if copied else Severity.WARNING,
            "the targets are the inputs at the same position: the labels are not shifted"
            + (shown if latest is not None else ""),
            {"offset": 0, "value": latest, "entropy": chance, "limit": self.copying_ratio},
        )


def _offsets(call: LossCall) -> tuple[int, ...]:
    return (call.targets.input_offsets or ()) if call.targets is not None else ()
