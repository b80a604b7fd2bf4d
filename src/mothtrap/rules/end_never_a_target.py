"""DAT521: a sequence model is never trained to end a sequence."""

from __future__ import annotations

from collections import Counter

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._loss_calls import by_place, class_calls, finding_of_calls


@frozen
class EndNeverATarget(Rule):
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

    code = "DAT521"
    title = "end of sequence is never a target"
    needs = (Need(facts=(LossCall,)),)

    rows: int = threshold(32, unit="sequences", source="chosen by hand")
    after_share: float = threshold(0.99, unit="of the sequences", source="chosen by hand")
    last_share: float = threshold(
        0.5, unit="of the sequences", source="chosen by hand: most texts end with a full stop"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check how the sequences of each call site end."""
        looked = [
            call
            for call in class_calls(window, binary=False)
            if call.targets is not None and call.targets.endings is not None
        ]
        if not looked:
            if any(call.targets is not None for call in class_calls(window, binary=False)):
                raise NotApplicable(
                    "no next-token loss on sequences of different lengths was recorded"
                )
            raise NotEnoughData("no targets of a class loss were recorded")
        found = [self._judge(window, calls) for calls in by_place(looked)]
        return [finding for finding in found if finding is not None][:1]

    def _judge(self, window: Window, calls: list[LossCall]) -> Finding | None:
        every = [c.targets.endings for c in calls if c.targets is not None and c.targets.endings]
        rows = sum(seen[0] for seen in every)
        if rows < self.rows:
            return None
        last: Counter[int] = Counter()
        after: Counter[int] = Counter()
        for _, last_token, last_rows, after_token, after_rows in every:
            last[last_token] += last_rows
            after[after_token] += after_rows
        token, count = after.most_common(1)[0]
        ends = last.most_common(1)[0][1] / rows
        if count < self.after_share * rows or ends >= self.last_share:
            return None
        return finding_of_calls(
            self,
            window,
            calls,
            Severity.INFO,
            f"{count} of {rows} sequences are followed by token {token}, which the loss ignores, "
            f"and no end token is a target: the most frequent last target ends {ends:.0%} of them "
            f"(limit {self.last_share:.0%}), so the model does not learn to stop",
            {"sequences": rows, "token": token, "share": ends, "limit": self.last_share},
        )
