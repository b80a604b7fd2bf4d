"""DAT524: the targets of a sequence model are not its next tokens, but tokens further away."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._loss_calls import by_place, class_calls, finding_of_calls, predicts_tokens


@frozen
class TargetsShiftedWrongly(Rule):
    """The targets of a sequence model are shifted twice, or in the wrong direction.

    What it detects:
        Targets of a class loss that equal the tokens two positions later, or one position earlier,
        than the tokens that the model reads.

    Why it matters:
        With targets two positions later, the model learns to leave out every second token, and
        generates text that skips words. With targets one position earlier, the model repeats a
        token that it has read, the loss falls to nearly 0, and it learns nothing about the
        sequence.

    Fires:
        In `calls` observed calls in which all targets that are not ignored equal the tokens at the
        same wrong offset. Warning if the classes are tokens (at least 20 classes), otherwise info.

    Stays quiet:
        If any training loss has the next tokens as targets, as in models with several heads for
        several later tokens. For sequences whose tokens repeat, so that the next tokens fit,
        too.

    What to do:
        - Shift once: predict `tokens[:, 1:]` from `tokens[:, :-1]`. Models in the transformers
          library shift labels themselves: pass them `labels=input_ids`.
        - Roll targets to the left: `np.roll(tokens, -1)`, not `np.roll(tokens, 1)`. With slices,
          start the targets one position later: `data[i + 1 : i + 1 + length]`.

    Example:
        labels = input_ids[:, 1:]                      # the model shifts them again
        model(input_ids=input_ids[:, :-1], labels=labels)
        model(input_ids=input_ids, labels=input_ids)

    References:
        https://huggingface.co/docs/transformers/tasks/language_modeling
    """

    code = "DAT524"
    title = "targets shifted wrongly"
    needs = (Need(facts=(LossCall,)),)
    explains = (*UNLEARNED, "too_good_to_be_true", "overfit")

    calls: int = threshold(
        2, unit="observed calls", source="chosen by hand: one batch may agree by chance"
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
        if any(1 in _offsets(call) for call in looked):
            return []
        for calls in by_place(looked):
            offsets = {_offsets(call) for call in calls}
            if len(calls) >= self.calls and offsets in ({(2,)}, {(-1,)}):
                return [self._finding(window, calls, offsets == {(2,)})]
        return []

    def _finding(self, window: Window, calls: list[LossCall], twice: bool) -> Finding:
        once, left = self.fixes(window)
        where = "two positions later" if twice else "one position earlier"
        way = "shifted twice" if twice else "shifted in the wrong direction"
        return finding_of_calls(
            self,
            window,
            calls,
            Severity.WARNING if all(map(predicts_tokens, calls)) else Severity.INFO,
            f"the targets are the inputs {where}: they are {way}",
            {"offset": 2 if twice else -1, "limit": 1},
            fixes=(once, left) if twice else (left, once),
        )


def _offsets(call: LossCall) -> tuple[int, ...]:
    return (call.targets.input_offsets or ()) if call.targets is not None else ()
