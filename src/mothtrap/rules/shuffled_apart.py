"""DAT518: inputs and labels are shuffled in different orders."""

from __future__ import annotations

from mothtrap.core.facts.pipelines import ShuffledApart
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "DAT518",
    title="inputs and labels shuffled separately",
    severity="error",
    needs=[Need(facts=(ShuffledApart,))],
    explains=(*UNLEARNED, "labels_unrelated", "overfit", "overtraining", "learning_rate_too_low"),
)
def shuffled_apart(window: Window) -> Found | None:
    """Inputs and labels are shuffled in different orders.

    What it detects:
        A pipeline that shuffles inputs and labels separately, or only one of the two, and pairs
        them afterwards. A pandas table whose labels have the same index in another order.

    Why it matters:
        No label belongs to its input. The loss stays at the level of guessing, or the model
        memorizes the rows and does not generalize.

    Fires:
        Error when `fit` gets a pipeline that pairs inputs and labels after shuffling. Error when a
        table and its labels share most index values, but less than half at the same position.

    Stays quiet:
        Both shuffled with the same buffer and the same seed. Pairs that are not input and label,
        such as two images. Tables whose index was reset.

    What to do:
        - Keras: Pair first, then shuffle: `tf.data.Dataset.zip((inputs, labels)).shuffle(n)`.
        - XGBoost, LightGBM, CatBoost, scikit-learn: Split and shuffle both in one call:
          `train_test_split(x, y)`, or put the labels into the order of the rows: `y.loc[x.index]`.

    Example:
        tf.data.Dataset.zip((images.shuffle(n), labels.shuffle(n)))
        tf.data.Dataset.zip((images, labels)).shuffle(n)

    References:
        https://www.tensorflow.org/api_docs/python/tf/data/Dataset#shuffle
    """
    first = next(window.seen(ShuffledApart, steps=1), None)
    if first is None:
        return None
    return Found.of(
        first,
        "inputs and labels are shuffled in different orders before they are paired: no label "
        "belongs to its input",
        last_step=window.last_step,
    )
