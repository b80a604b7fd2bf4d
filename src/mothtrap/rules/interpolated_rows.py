"""DAT542: evaluation rows are interpolated between training rows."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "DAT542",
    needs=[Need(facts=(RowsShared,))],
    explains=("too_good_to_be_true", "train_eval_overlap"),
)
def interpolated_rows(
    window: Window,
    *,
    share: float = threshold(
        0.05,
        unit="of the inspected rows",
        source="measured: 0 to 0.01 in tables split first, 0.24 after SMOTE of a class of 8 %",
    ),
    rows: int = threshold(5, unit="rows", source="chosen by hand"),
) -> list[Found]:
    """Evaluation rows are interpolated between training rows.

    What it detects:
        Rows of an evaluation that lie exactly on a line through two of their nearest training rows.

    Why it matters:
        SMOTE and similar methods make new rows of a rare class between two existing rows. If they
        run before the split, evaluation rows are mixtures of training rows, or the other way round.
        The evaluation then measures how well the model repeats them, and new data score far worse.

    Fires:
        Warning when at least `share` of the inspected rows of an evaluation, and `rows` of them,
        lie on such a line. At most 96 rows and 24 columns are inspected.

    Stays quiet:
        For tables with fewer than 4 columns of continuous numbers, and for rows that all lie near
        one line. If only training rows were made by interpolation.

    What to do:
        - Split first, then resample the training rows only: `SMOTE().fit_resample(x_train,
          y_train)`.
        - In cross-validation, resample inside each fold, with the `Pipeline` of imbalanced-learn.

    Example:
        x, y = SMOTE().fit_resample(x, y)
        x_train, x_test, y_train, y_test = train_test_split(x, y)

        x_train, x_test, y_train, y_test = train_test_split(x, y)
        x_train, y_train = SMOTE().fit_resample(x_train, y_train)

    References:
        https://imbalanced-learn.org/stable/common_pitfalls.html
    """
    latest = {(one.source, one.location): one for one in window.seen(RowsShared) if one.inspected}
    if not latest:
        raise NotApplicable("no table of continuous numbers was evaluated")
    return [
        Found.of(
            one,
            f"{one.between} of {one.inspected} inspected rows of {one.source} lie exactly between "
            "two training rows: rows were made by interpolation before the split",
            severity="warning",
            evidence={
                "value": one.between / one.inspected,
                "limit": share,
                "inspected": one.inspected,
            },
            mode="eval",
            location=one.location,
        )
        for one in latest.values()
        if one.between >= max(rows, share * one.inspected)
    ]
