"""DAT518: inputs and labels are shuffled in different orders."""

from __future__ import annotations

from dataclasses import dataclass

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.pipelines import ShuffledApart as Seen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@dataclass(frozen=True)
class ShuffledApart(Rule):
    """Inputs and labels are shuffled in different orders.

    What it detects:
        A pipeline that shuffles inputs and labels by themselves, each in an order of its own, or
        only one of the two, and pairs them afterwards.

    Why it matters:
        No label stands beside its own input. The loss stays at the level of guessing, or the
        model learns the rows by heart, and nothing holds in evaluation.

    Fires:
        Error when `fit` is given such a pipeline.

    Stays quiet:
        Both shuffled with the same buffer and the same seed. Pairs that are no input and label: two
        images, two data sets that are mixed.

    What to do:
        - Pair first, then shuffle: `tf.data.Dataset.zip((inputs, labels)).shuffle(n)`.

    Example:
        tf.data.Dataset.zip((images.shuffle(n), labels.shuffle(n)))
        tf.data.Dataset.zip((images, labels)).shuffle(n)

    References:
        https://www.tensorflow.org/api_docs/python/tf/data/Dataset#shuffle
    """

    code = "DAT518"
    title = "inputs and labels shuffled apart"
    needs = (Need(facts=(Seen,)),)
    explains = (*UNLEARNED, "labels_unrelated", "overfit", "overtraining", "learning_rate_too_low")

    def check(self, window: Window) -> list[Finding]:
        """Report the training that is given such a pipeline."""
        if not len(window.steps_S):
            raise NotEnoughData("no step was seen")
        seen = list(window.seen(Seen))
        if not seen:
            return []
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=seen[0].step,
                last_step=int(window.steps_S[-1]),
                message="inputs and labels are shuffled in different orders before they are "
                "paired: no label belongs to its input",
                location=seen[0].location,
            )
        ]
