"""Facts about models of decision trees that are boosted round by round."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class BoostingBegan(Fact, frozen=True, kw_only=True, tag=True):
    """A boosted model finished its first round.

    `fit` is the label of the training run, unique in the run; `series` are its losses, and `sites`
    its evaluations. `call` is `train`, `cv`, `fit`, or `update` if the script has its own loop.
    `objective` is the library's own name, or `custom` for a user's function. `learning_rate` scales
    each tree; `max_depth` and `max_leaves` are limits, 0 = none. `parameters` are all that the
    library reports, as strings. `metrics` are the evaluated metrics, including those in
    `higher_is_better`. Training ends early after `stops_after` rounds without improvement of
    `stops_on` (`site/metric`); None if it does not; `stops_rising`: early stopping prefers larger
    values, None = the library decides. `train_site` is the site that evaluates the training data
    itself, "" = none. `library` is the import name. `task` is `two_classes`, `classes`,
    `regression`, `counts`, `ranking`, or "" if unknown. `classes` is the number of classes that the
    script sets, 0 = none; `rounds_asked` is the requested number of rounds, 0 = unknown.
    `keeps_best`: the library drops the rounds after the best evaluation when the training ends.
    `ignored` contains the parameters that the library does not know, with a similar name that it
    knows, or "" if a function of the library has an argument of this name; None = not inspected.
    """

    fit: str
    call: str
    objective: str
    learning_rate: float | None = None
    max_depth: int = 0
    max_leaves: int = 0
    parameters: dict[str, str] = {}
    metrics: tuple[str, ...] = ()
    higher_is_better: tuple[str, ...] = ()
    series: str = ""
    sites: tuple[str, ...] = ()
    train_site: str = ""
    stops_after: int | None = None
    stops_on: str = ""
    rounds_before: int = 0
    location: str | None = None
    library: str = ""
    task: str = ""
    classes: int = 0
    stops_rising: bool | None = None
    rounds_asked: int = 0
    keeps_best: bool = False
    ignored: dict[str, str] | None = None


class BoostingEnded(Fact, frozen=True, kw_only=True, tag=True):
    """Training of a boosted model has ended.

    `rounds` is the number of rounds in this training run; `best_round` counts from 0 and is None if
    the library did not choose one.
    """

    fit: str
    rounds: int
    best_round: int | None = None


class TreesGrown(Fact, frozen=True, kw_only=True, tag=True):
    """The shape of the trees of one round.

    `round` counts from 0. `leaves` is the mean over the `trees`, `depth` the maximum.
    `largest_leaf` is the largest magnitude of a leaf's value, including shrinkage. `rows` is the
    number of training rows, 0 = unknown.
    """

    fit: str
    round: int
    trees: int
    leaves: float
    depth: int
    largest_leaf: float
    rows: int = 0


class FeatureGains(Fact, frozen=True, kw_only=True, tag=True):
    """Share of each feature in the gain of all splits so far, largest first.

    At most 32 are reported; `used` of `columns` features have a split.
    """

    fit: str
    round: int
    features: tuple[str, ...]
    shares: tuple[float, ...]
    used: int
    columns: int


class FeatureImportance(Fact, frozen=True, kw_only=True, tag=True):
    """Importance of the features in a complete model, of one kind that the library computes.

    `values` contains the largest, at most 100. Kinds that count splits favor continuous columns.
    """

    fit: str
    kind: str
    values: dict[str, float]


class TableSeen(Fact, frozen=True, kw_only=True, tag=True):
    """A table that a boosted model is trained or evaluated on.

    `site` is the name of the evaluation, "" for the training data. `missing_share` is the share of
    cells without a value. `constant` lists at most 32 columns with only one value; None if the
    values were not inspected. `looked_at` rows were inspected. For a classifier, `label_counts`
    contains the number of rows of each class 0, 1 ...; `label_mean`, `label_std`, `label_min` and
    `label_max` describe finite labels; `label_distinct` is the number of distinct labels if all are
    whole numbers, otherwise None; `value_counts` contains the number of rows of at most 20 values,
    in ascending order; `label_nearest` is the smallest distance of a label from 0. If labels are
    ranges, `reversed_bounds` is the number of rows whose lower bound is above the upper bound.
    `weighted`: rows or classes have weights; `class_weights` are the mean weights of the rows of
    each class, empty if unknown. `groups` is the number of groups in which rows are ranked, None =
    none or unknown; `largest_group` is the size of the largest, `single_groups` have one row, and
    the rows of `equal_groups`, of two or more rows, all have the same label.
    """

    fit: str
    site: str
    rows: int
    columns: int
    missing_share: float | None = None
    constant: tuple[str, ...] | None = None
    looked_at: int = 0
    label_counts: tuple[int, ...] | None = None
    label_mean: float | None = None
    label_std: float | None = None
    label_min: float | None = None
    label_max: float | None = None
    label_distinct: int | None = None
    value_counts: tuple[int, ...] = ()
    label_nearest: float | None = None
    reversed_bounds: int = 0
    weighted: bool = False
    class_weights: tuple[float, ...] = ()
    groups: int | None = None
    largest_group: int = 0
    single_groups: int = 0
    equal_groups: int = 0
    location: str | None = None


class ColumnsSeen(Fact, frozen=True, kw_only=True, tag=True):
    """Columns of the training table that rules inspect, from `looked_at` rows.

    `identifiers` contain whole numbers that are unique per row and cover most of a range; `codes`
    contain whole numbers whose levels explain the label regardless of their order; `copies` are
    pairs of equal columns; `empty` columns have no value. `sentinels` contains the share of the
    rows with the same value far outside all others, and `sentinel_values` that value; `infinite`
    counts infinite values. `telling` contains the three columns that explain the largest share of
    the label alone, on rows that were not used for the fit. `same_as_label` are columns that
    contain the label, possibly with other codes or units. `ordered` are columns declared as
    categories whose values are numbers that the label follows. At most 32 of each. `trend` is the
    largest magnitude of the correlation of a column with the label, or with the numbers of its
    classes; None = unknown.
    """

    fit: str
    looked_at: int
    columns: int
    identifiers: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    empty: tuple[str, ...] = ()
    sentinels: dict[str, float] = {}
    sentinel_values: dict[str, float] = {}
    infinite: dict[str, int] = {}
    telling: dict[str, float] = {}
    same_as_label: tuple[str, ...] = ()
    ordered: tuple[str, ...] = ()
    trend: float | None = None


class TablesDiffer(Fact, frozen=True, kw_only=True, tag=True):
    """Columns of an evaluation table that are distributed differently than in training.

    `distance` is the distance of the means in standard deviations of the training data, by column,
    largest first, at most 32. `spread` contains the factor by which the spread of some of them
    differs. `order` contains pairs of columns (evaluation, training) with matching distributions,
    if there are several. `by_name`: the columns have names, and `order` contains pairs of different
    names in the same position. `constant` columns vary only in training.
    """

    fit: str
    site: str
    columns: int
    distance: dict[str, float] = {}
    spread: dict[str, float] = {}
    order: tuple[tuple[str, str], ...] = ()
    constant: tuple[str, ...] = ()
    by_name: bool = False


class GradientsGiven(Fact, frozen=True, kw_only=True, tag=True):
    """Gradients and hessians that a custom objective returns in the first round.

    `against` is the correlation of gradients with labels. For a loss it is negative, because
    predictions below the label have to increase. `hessians_below` is the share of hessians that are
    not above 0. `nonfinite` is the number of gradients and hessians that are not finite.
    `hessian_sum` is the sum of the finite hessians. A Newton step moves a row by its gradient
    divided by its hessian: `shift` is the median of these steps, `shift_spread` half of the
    distance between their 16th and 84th percentile, and `one_sided` the share with the more
    frequent sign. None for several outputs, or if a hessian is not above 0. If an objective for
    several classes returns a flat array: `by_row` is the share of the rows whose own class has the
    smallest gradient if the array contains one row after another, and `by_class` the share if it
    contains one class after another.
    """

    fit: str
    rows: int
    against: float | None = None
    hessians_below: float = 0.0
    nonfinite: int = 0
    hessian_sum: float | None = None
    shift: float | None = None
    shift_spread: float | None = None
    one_sided: float | None = None
    by_row: float | None = None
    by_class: float | None = None


class ScoresSeen(Fact, frozen=True, kw_only=True, tag=True):
    """Predictions of a boosted model for one dataset after `rounds` rounds.

    `confusion` contains the number of rows of class i that are predicted as j, for at most 20
    classes. `auc` and `roc` (false and true positive rates) are for two classes. `precision`,
    `recall` and `f1` are by class. `error_edges` bounds bins of labels, and `error_per_bin` is the
    mean absolute error of each. `residuals` counts the differences of label and prediction between
    `residual_edges`. `relation` is the correlation of predictions and labels for a custom
    objective. `last`: the training is over.
    """

    fit: str
    site: str
    rounds: int
    rows: int
    last: bool = False
    confusion: tuple[tuple[int, ...], ...] = ()
    precision: tuple[float, ...] = ()
    recall: tuple[float, ...] = ()
    f1: tuple[float, ...] = ()
    accuracy: float | None = None
    auc: float | None = None
    roc: tuple[tuple[float, float], ...] = ()
    error_edges: tuple[float, ...] = ()
    error_per_bin: tuple[float, ...] = ()
    residual_edges: tuple[float, ...] = ()
    residuals: tuple[int, ...] = ()
    relation: float | None = None
