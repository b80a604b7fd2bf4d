"""DAT533: preprocessing is fitted again to the evaluation rows."""

from __future__ import annotations

from mothtrap.core.facts.estimators import TransformRefitted
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window


@rule(
    "DAT533",
    needs=[Need(facts=(TransformRefitted,))],
    explains=("eval_table_differs", "labels_unrelated", "constant_prediction", "train_eval_shift"),
)
def preprocessing_refitted(window: Window) -> Found | None:
    """Preprocessing is fitted again to the evaluation rows.

    What it detects:
        A scaler, encoder, or other transformer of scikit-learn that is fitted to the training
        rows, and fitted again to the rows that the model predicts. Or that is fitted to all rows
        before they are split.

    Why it matters:
        The model gets evaluation rows on another scale than in training, so its score is wrong. A
        single new row cannot be transformed this way at all.

    Fires:
        Warning when a transformer is fitted to as many rows as the model, and a transformer of the
        same class is fitted later to as many rows as the model predicts.
        Warning when a scaler is fitted only to as many rows as the model predicts, before the model
        is fitted to other rows.
        Warning when a transformer that uses the labels, such as a selection of columns, is fitted
        to as many rows as the model is fitted to and predicts together, and returns as many columns
        as the model gets, in a script that splits its rows. A note for transformers without labels,
        whose effect on the score is usually small.

    Stays quiet:
        Cross-validation, where each fold fits its own transformer to its training rows. If both
        tables have the same number of rows.

    What to do:
        - Fit once, to the training rows, and only transform the others:
          `x_test = scaler.transform(x_test)`.
        - Fit the scaler to the training rows: `scaler.fit(x_train)`.
        - Put the transformer into the model: `make_pipeline(StandardScaler(), model)`.
        - Split first: `train_test_split(x, y)`, and then fit the transformer to the training rows.

    Example:
        x_train, x_test = scaler.fit_transform(x_train), scaler.fit_transform(x_test)
        x_train, x_test = scaler.fit_transform(x_train), scaler.transform(x_test)

    References:
        https://scikit-learn.org/stable/common_pitfalls.html#inconsistent-preprocessing
    """
    for one in window.seen(TransformRefitted, steps=1):
        if one.whole:
            return _whole(one)
        words = (
            f"{one.train_rows} training rows, and fitted again to the {one.eval_rows} rows that "
            "the model predicts"
        )
        if one.only:
            words = (
                f"the {one.eval_rows} rows that the model predicts, not to the {one.train_rows} "
                "training rows"
            )
        return Found.of(
            one,
            f"{one.transform} is fitted to {words}",
            mode="eval",
            evidence={"train_rows": one.train_rows, "eval_rows": one.eval_rows},
            fixes=(1, 2) if one.only else (0, 2),
        )
    return None


def _whole(one: TransformRefitted) -> Found:
    return Found.of(
        one,
        f"{one.transform} is fitted to all {one.train_rows + one.eval_rows} rows "
        f"{'and their labels ' if one.supervised else ''}before they are split, so it knows the "
        f"{one.eval_rows} rows that the model predicts",
        severity="warning" if one.supervised else "info",
        title="preprocessing sees evaluation rows",
        mode="eval",
        evidence={"train_rows": one.train_rows, "eval_rows": one.eval_rows},
        fixes=(3, 2),
    )
