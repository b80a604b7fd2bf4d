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
    `stops_on` (`site/metric`) training ends early; None where it does not. `train_site` is the
    site that evaluates the training data themselves, "" = none.
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


class TableSeen(Fact, frozen=True, kw_only=True, tag=True):
    """A table that a boosted model is trained or evaluated on.

    `site` is the name of the evaluation, "" for the training data. `missing_share` is that of
    cells without a value. `constant` are columns with one value, at most 32; None where the
    values were not looked at, and where they were, in `looked_at` rows. `label_counts` has the rows
    of each class 0, 1 ... for a classifier; `label_mean`, `label_std`, `label_min` and
    `label_max` are of finite labels. `weighted`: rows have weights, or classes a scale.
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
    weighted: bool = False
    location: str | None = None
