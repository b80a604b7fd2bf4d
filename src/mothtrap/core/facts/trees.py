"""Facts about models that are made of decision trees, one round of boosting after another."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class BoostingBegan(Fact, frozen=True, kw_only=True, tag=True):
    """A boosted model closed its first round.

    `fit` is the label of the training, unique in the run; `series` and `sites` are those of
    its losses and evaluations. `call`: `train`, `cv`, `fit`, or `update` where the script has a
    loop of its own. `objective` is the library's own name, `custom` for a function of the user's.
    `learning_rate` shrinks each tree; `max_depth` and `max_leaves` are limits, 0 = none.
    `parameters` are all that the library reports, as texts. `metrics` are those that are
    evaluated, `higher_is_better` among them. `stops_after` rounds without improvement of
    `stops_on` (`site/metric`) training ends early; None where it does not; `stops_rising`: for
    that a greater value is better, None = the library decides. `train_site` is the
    site that evaluates the training data themselves, "" = none.
    `library` is the import name. `task`: `two_classes`, `classes`, `regression`, `counts`,
    `ranking`, or "" where that is not known. `classes` is the number that the script sets,
    0 = none; `rounds_asked` that of the rounds it asks for, 0 = unknown. `keeps_best`: the library
    drops the rounds after the best evaluation when the training ends.
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


class BoostingEnded(Fact, frozen=True, kw_only=True, tag=True):
    """A boosted model is complete.

    `rounds` were made in this training; `best_round` counts from 0 and is None where the
    library chose none.
    """

    fit: str
    rounds: int
    best_round: int | None = None


class TreesGrown(Fact, frozen=True, kw_only=True, tag=True):
    """The shape of the trees of one round.

    `round` counts from 0. `leaves` is the mean over the `trees`, `depth` the largest.
    `largest_leaf` is the greatest magnitude of a leaf's value, shrinkage included. `rows` is
    the number of training rows, 0 = unknown.
    """

    fit: str
    round: int
    trees: int
    leaves: float
    depth: int
    largest_leaf: float
    rows: int = 0


class FeatureGains(Fact, frozen=True, kw_only=True, tag=True):
    """The share of each feature in the gain of all splits so far, the largest first.

    At most 32 are told; `used` features have a split, of `columns`.
    """

    fit: str
    round: int
    features: tuple[str, ...]
    shares: tuple[float, ...]
    used: int
    columns: int


class FeatureImportance(Fact, frozen=True, kw_only=True, tag=True):
    """Importance of the features in a complete model, of one kind that the library computes.

    `values` has the largest, at most 100. Kinds that count splits favor continuous columns.
    """

    fit: str
    kind: str
    values: dict[str, float]


class TableSeen(Fact, frozen=True, kw_only=True, tag=True):
    """A table that a boosted model is trained or evaluated on.

    `site` is the name of the evaluation, "" for the training data. `missing_share` is that of
    cells without a value. `constant` are columns with one value, at most 32; None where the
    values were not looked at, and where they were, in `looked_at` rows. `label_counts` has the rows
    of each class 0, 1 ... for a classifier; `label_mean`, `label_std`, `label_min` and
    `label_max` are of finite labels, `label_distinct` the number of their values where all are
    whole, else None; `value_counts` their rows, ascending by value, of at most 20 values;
    `label_nearest` the least distance of a label from 0. `weighted`: rows have weights, or
    classes a scale.
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
    weighted: bool = False
    location: str | None = None


class ColumnsSeen(Fact, frozen=True, kw_only=True, tag=True):
    """The columns of the training table that rules ask about, in `looked_at` rows.

    `identifiers` hold whole numbers that no two rows share, most of a range; `codes` hold whole
    numbers whose levels explain the label without an order; `copies` are pairs of equal
    columns; `empty` have no value. `sentinels` gives the share of the rows with the same value
    far outside of all others, `sentinel_values` that value; `infinite` counts values that are
    infinite. `telling` has the share of the label that one column explains by itself in rows
    not used to find out how, the three largest. At most 32 of each.
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


class TablesDiffer(Fact, frozen=True, kw_only=True, tag=True):
    """Columns of an evaluation that are distributed otherwise than those of training.

    `distance` is that of the means in standard deviations of training, by column, the largest
    first, at most 32. `order` has pairs of columns (evaluation, training) of which the first is
    distributed like the second, where several are. `constant` columns vary in training only.
    """

    fit: str
    site: str
    columns: int
    distance: dict[str, float] = {}
    order: tuple[tuple[str, str], ...] = ()
    constant: tuple[str, ...] = ()


class GradientsGiven(Fact, frozen=True, kw_only=True, tag=True):
    """Gradients and hessians that an objective of the user's returns in the first round.

    `against` is the correlation of gradients with labels: that of a loss is negative, since
    predictions below the label have to grow. `hessians_below` is the share of hessians that are
    not above 0, `nonfinite` counts gradients and hessians. A Newton step moves a row by its
    gradient over its hessian: `shift` is the median of these steps, `shift_spread` half of the
    distance between their 16th and 84th percentile, `one_sided` the share with the more frequent
    sign. None for several outputs, and where a hessian is not above 0.
    """

    fit: str
    rows: int
    against: float | None = None
    hessians_below: float = 0.0
    nonfinite: int = 0
    shift: float | None = None
    shift_spread: float | None = None
    one_sided: float | None = None


class ScoresSeen(Fact, frozen=True, kw_only=True, tag=True):
    """Predictions of a boosted model for one set of data after `rounds` rounds.

    `confusion` has the rows of class i that are predicted as j, at most 20 classes. `auc` and `roc`
    (false and true positive rates) are of two classes. `precision`, `recall` and `f1` are by class.
    `error_edges` bounds bins of labels, `error_per_bin` is the mean absolute error of each.
    `residuals` counts label minus prediction between `residual_edges`.
    `last`: the training is over.
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
