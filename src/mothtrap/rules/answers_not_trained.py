"""DAT530: only the beginnings of sequences are trained."""

from __future__ import annotations

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
class AnswersNotTrained(Rule):
    """Only the beginnings of sequences are trained.

    What it detects:
        Next-token prediction whose labels cover the beginning of each sequence, while the loss
        ignores all tokens from some position on, although they are no padding.

    Why it matters:
        In instruction tuning, each sequence is a prompt followed by its answer, and the labels of
        the prompt are masked. If the answer is masked instead, the model learns to write prompts.

    Fires:
        Warning when at least `rows` sequences were inspected, and in at least `row_share` of them
        the labels begin with the first token and stop at least two tokens before the end. Repeated
        tokens at the ends of a sequence count as padding.

    Stays quiet:
        When the labels reach the end of the sequences, or begin later than the sequences. For
        losses that count all labels. For models whose targets are not the next tokens.

    What to do:
        - Mask the prompt, not the answer: `label[:prompt_length] = -100`.
        - Print one example: the tokens, and the labels that are not -100.

    Example:
        label[prompt_length:] = -100                  # ignores the answer
        label[:prompt_length] = -100                  # ignores the prompt

    References:
        Taori et al. 2023, Stanford Alpaca, https://github.com/tatsu-lab/stanford_alpaca
    """

    code = "DAT530"
    needs = (Need(facts=(LossCall,)),)

    rows: int = threshold(
        8, unit="sequences", source="chosen by hand: batches of large models have few rows"
    )
    row_share: float = threshold(
        0.95, unit="of the sequences", source="chosen by hand: a few have very short answers"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the labels of each call site."""
        sampled = [call for call in class_calls(window, binary=False) if call.targets is not None]
        if not sampled:
            raise NotEnoughData("no targets of a class loss were recorded")
        looked = [call for call in sampled if call.targets is not None and call.targets.stops]
        if not looked:
            raise NotApplicable("no next-token loss that ignores labels was recorded")
        found = [self._judge(window, calls) for calls in by_place(looked)]
        return [finding for finding in found if finding is not None][:1]

    def _judge(self, window: Window, calls: list[LossCall]) -> Finding | None:
        every = [c.targets.stops for c in calls if c.targets is not None and c.targets.stops]
        rows, early = sum(seen[0] for seen in every), sum(seen[1] for seen in every)
        if rows < self.rows or early < self.row_share * rows:
            return None
        share = sum(seen[1] * seen[2] for seen in every) / early
        return finding_of_calls(
            self,
            window,
            calls,
            Severity.WARNING,
            f"the labels of {early} of {rows} sequences begin with the first token, and the loss "
            f"ignores the last {share:.0%} of the tokens, which are no padding: the model is "
            "trained on the prompts, not on the answers",
            {"sequences": rows, "early": early, "share": share, "limit": self.row_share},
        )
