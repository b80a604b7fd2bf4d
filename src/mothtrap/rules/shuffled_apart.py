"""DAT518: inputs and labels are shuffled in different orders."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.pipelines import ShuffledApart as Seen
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@frozen
class ShuffledApart(Rule):
    """Inputs and labels are shuffled in different orders.

    What it detects:
        A pipeline that shuffles inputs and labels separately, each in its own order, or only one of
        the two, and pairs them afterwards.

    Why it matters:
        No label belongs to its input. The loss stays at the level of guessing, or the model
        memorizes the rows and does not generalize.

    Fires:
        Error when `fit` gets a pipeline that pairs inputs and labels after shuffling.

    Stays quiet:
        Both shuffled with the same buffer and the same seed. Pairs that are not input and label:
        two images, two mixed datasets.

    What to do:
        - Pair first, then shuffle: `tf.data.Dataset.zip((inputs, labels)).shuffle(n)`.

    Example:
        tf.data.Dataset.zip((images.shuffle(n), labels.shuffle(n)))
        tf.data.Dataset.zip((images, labels)).shuffle(n)

    References:
        https://www.tensorflow.org/api_docs/python/tf/data/Dataset#shuffle
    """

    code = "DAT518"
    title = "inputs and labels shuffled separately"
    needs = (Need(facts=(Seen,)),)
    explains = (*UNLEARNED, "labels_unrelated", "overfit", "overtraining", "learning_rate_too_low")

    def check(self, window: Window) -> list[Finding]:
        """Report training runs with separately shuffled inputs and labels."""
        if not len(window.steps_S):
            raise NotEnoughData("no step was recorded")
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
