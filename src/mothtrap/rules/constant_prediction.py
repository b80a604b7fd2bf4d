"""EST952: a fitted estimator predicts the same value for every row."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.estimators import EstimatorFitted, PredictionsCompared
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.facts.trees import ColumnsSeen
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

UNRELATED = 0.02
"""Share of the labels below which the best column counts as unrelated to them; chosen by hand."""

TOO_LARGE = {"alpha": 100.0, "gamma": 10.0}
"""Parameters that can make a model constant from this value on; chosen by hand."""
TOO_SMALL = {"C": 0.001}
"""Parameters that can make a model constant up to this value; chosen by hand."""


@rule(
    "EST952",
    needs=[
        Need(facts=(EstimatorFitted,)),
        Need(facts=(PredictionsCompared, ColumnsSeen, DataTaken), optional=True),
    ],
    explains=("too_few_passes", "labels_unrelated", "class_imbalance"),
)
def constant_prediction(
    window: Window,
    *,
    share: float = threshold(0.999, unit="of the rows", source="chosen by hand"),
    others: float = threshold(0.05, unit="of the labels", source="chosen by hand"),
    spread: float = threshold(
        0.01, unit="of the standard deviation of the labels", source="chosen by hand"
    ),
    rows: int = threshold(50, unit="rows", source="chosen by hand"),
) -> Found | None:
    """A fitted estimator predicts the same value for every row.

    What it detects:
        A classifier that predicts one class for all training rows, or for all rows of an
        evaluation. Also a regressor whose predictions hardly differ.

    Why it matters:
        The accuracy then equals the share of the most frequent class, which can look good. Usual
        causes are dead units, a strong penalty, a high learning rate, or unscaled columns.

    Fires:
        Warning when `share` of the rows are predicted as one class although at least `others` of
        the labels belong to other classes. Warning when numeric predictions have less than
        `spread` of the standard deviation of the labels. If `C`, `alpha`, or `gamma` has an extreme
        value, the message names it.

    Stays quiet:
        With fewer than `rows` rows, or if nearly all labels are one class.

    What to do:
        - Scale the columns: `make_pipeline(StandardScaler(), model)`.
        - Weaken the regularization (lower `alpha`, `gamma` or `min_samples_leaf`, raise `C`), and
          lower the learning rate (`learning_rate_init`, `eta0`).
        - Weight a rare class: `class_weight="balanced"` of `SGDClassifier`.
        - Look at some rows: does each label belong to its columns? Split and shuffle both in one
          call: `train_test_split(x, y)`.

    Example:
        MLPClassifier(alpha=1000).fit(x, y)
        MLPClassifier(alpha=1e-4).fit(x, y)

    References:
        LeCun, Bottou, Orr, Müller 1998, Efficient BackProp,
        http://yann.lecun.com/exdb/publis/pdf/lecun-98b.pdf
    """
    latest = window.latest(EstimatorFitted, by="fit", steps=0)
    judged: list[EstimatorFitted | PredictionsCompared] = [
        one for one in latest if one.judged >= rows
    ]
    judged += [one for one in window.seen(PredictionsCompared, steps=0) if one.rows >= rows]
    if not judged:
        raise NotEnoughData(f"no finished fit has predictions for {rows} rows")
    telling = {one.fit: one.telling for one in window.seen(ColumnsSeen)}
    for one in judged:
        words = _one_class(one, share, others) or _one_value(one, spread)
        if words:
            extreme = _extreme_parameter(next((fit for fit in latest if fit.fit == one.fit), None))
            best = max(telling.get(one.fit, {"": 1.0}).values(), default=1.0)
            fixes: tuple[int | str, ...]
            if best < UNRELATED:
                words += f"; no column alone explains more than {max(best, 0.0):.1%} of the labels"
                fixes = (3, 1, 2)
            elif extreme:
                words, fixes = f"{words}; {extreme[0]}", (extreme[1],)
            elif any(window.seen(DataTaken)):
                fixes = (1, 2, 0)  # DAT501 and DAT502 report unscaled columns of networks
            else:
                fixes = (0, 1, 2)
            return Found.of(
                one,
                f"{one.estimator} {words}",
                evidence={"rows": _rows(one), "fit": one.fit},
                fixes=fixes,
            )
    return None


def _extreme_parameter(fit: EstimatorFitted | None) -> tuple[str, str] | None:
    """Return the description and the fix of an extreme parameter; None without one."""
    for name, value in (fit.parameters if fit is not None else {}).items():
        if name in TOO_LARGE and value >= TOO_LARGE[name]:
            return f"{name} is {value:g}", f"Lower `{name}` from {value:g}."
        if name in TOO_SMALL and 0 < value <= TOO_SMALL[name]:
            return f"{name} is {value:g}", f"Raise `{name}` from {value:g}; the default is 1."
    return None


def _rows(one: EstimatorFitted | PredictionsCompared) -> int:
    return one.judged if isinstance(one, EstimatorFitted) else one.rows


def _rows_in_words(one: EstimatorFitted | PredictionsCompared) -> str:
    trained = isinstance(one, EstimatorFitted) or one.trained
    return f"{_rows(one)} {'training' if trained else 'evaluation'} rows"


def _one_class(one: EstimatorFitted | PredictionsCompared, share: float, others: float) -> str:
    if not (one.predicted_counts and one.label_counts):
        return ""
    top, labels = max(one.predicted_counts), sum(one.label_counts)
    wrong = 1 - max(one.label_counts) / labels if labels else 0.0
    if top < share * _rows(one) or wrong < others:
        return ""
    return (
        f"predicts class {one.predicted_counts.index(top)} for all {_rows_in_words(one)}, "
        f"although {wrong:.0%} of them belong to other classes"
    )


def _one_value(one: EstimatorFitted | PredictionsCompared, spread: float) -> str:
    if one.predicted_std is None or not one.label_std:
        return ""
    if one.predicted_std >= spread * one.label_std:
        return ""
    return (
        f"predicts nearly the same value for all {_rows_in_words(one)}: the standard deviation of "
        f"the predictions is {one.predicted_std:.2g}, and of the labels {one.label_std:.2g} (limit "
        f"{spread:g} times)"
    )
