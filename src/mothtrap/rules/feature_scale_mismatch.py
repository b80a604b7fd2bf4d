"""DAT502: features of a table differ in scale by orders of magnitude."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.layers import DISTANCES, VARIANCES, DataTaken
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Floats, Window
from mothtrap.rules._data import MOSTLY_ONE_VALUE, pooled_features, tables_by_layer
from mothtrap.rules._effects import CONFUSED

FEWEST_COMPONENTS = 4
"""Number of features from which on an order by scale is no chance. Chosen by hand."""
NOT_IN_ORDER = 1.1
"""Features are in order if none has this many times the scale of the one before."""
FEW_ROWS = 0.1
"""A batch repeats a few rows if more than this share of its rows has the median value, in every
feature. Chosen by hand: the batch then has at most ten different rows."""


@rule(
    "DAT502",
    needs=[Need(facts=(DataTaken,))],
    explains=(
        *CONFUSED,
        "constant_prediction",
        "too_few_passes",
        "dead_units",
        "exploding_gradient",
        "gradient_spike",
        "learning_rate_too_high",
        "loss_diverging",
        "loss_not_decreasing",
        "loss_oscillating",
        "loss_spike",
        "overtraining",
        "stuck_at_chance",
        "weight_growth",
        "wrong_initial_loss",
    ),
)
def feature_scale_mismatch(
    window: Window,
    *,
    scale_ratio: float = threshold(
        100.0, unit="times the standard deviation of another feature", source="chosen by hand"
    ),
    normalized_ratio: float = threshold(
        1e4,
        unit="times the median standard deviation, if a normalization follows",
        source="measured on one feature of 20, with Adam and LayerNorm or BatchNorm: at 3e3 the "
        "model learns late, at 1e4 only in part",
    ),
    variance_share: float = threshold(
        0.95, unit="of the variance of all features, for PCA", source="chosen by hand"
    ),
    min_rows: int = threshold(64, unit="rows", source="chosen by hand"),
) -> Found | None:
    """Features of a table differ in scale by orders of magnitude.

    What it detects:
        A linear or recurrent layer whose input features have very different scales, such as age
        and income. In scikit-learn also a model that compares rows by their distance (nearest
        neighbors, a kernel, k-means), and PCA that keeps at most half of the directions.

    Why it matters:
        The large features dominate the gradient and limit the learning rate. At that rate the
        weights of the small features hardly change, so the model uses them late or never.
        Distances, and the first directions of PCA, hardly depend on the small features.

    Fires:
        Warning when, over at least `min_rows` rows, the standard deviations of two features
        differ by a factor of more than `scale_ratio`. If a normalization follows the layer:
        warning when the largest standard deviation is above `normalized_ratio` times the median.
        That normalization scales units or rows, not features, so one huge feature still
        dominates. For PCA: warning when one feature also has more than `variance_share` of the
        variance of all features.

    Stays quiet:
        For image channels, token ids, inputs of a normalization layer, features that are nearly
        constant (one-hot, counts of rare words), outputs of other trained layers, and features
        that the model computes itself, such as embeddings of a time. For batches that repeat at
        most ten rows, such as the first batches of a replay buffer. For distances between rows
        whose features are in the order of their scale, as after PCA.

    What to do:
        - Standardize each feature: subtract its mean and divide by its standard deviation,
          both computed on the training data. In scikit-learn, put `StandardScaler()` in front.
        - Take the logarithm of features that span orders of magnitude.
        - PyTorch: Or start the model with `nn.BatchNorm1d(features, affine=False)`.
        - Keras: Or start the model with `keras.layers.Normalization()`, adapted to the training
          data: `layer.adapt(x_train)`.

    Example:
        x = torch.tensor(table, dtype=torch.float32)          # age, income, ...
        x = (x - x.mean(dim=0)) / x.std(dim=0)

    References:
        LeCun, Bottou, Orr, Müller 1998, Efficient BackProp, section 4.3,
        http://yann.lecun.com/exdb/publis/pdf/lecun-98b.pdf
    """
    every = tables_by_layer(window)
    tables = [looks for looks in every.values() if not looks[0].grid and looks[0].feature_stds]
    if not tables:
        if window.total_steps < 1:
            raise NotEnoughData("no layer that receives input data was observed")
        raise NotApplicable("no layer with weights receives a table of float features")
    most = max(sum(look.rows for look in looks) for looks in tables)
    if most < min_rows:
        raise NotEnoughData(f"needs {min_rows} rows, saw {most}")
    for every_look in tables:
        looks = [look for look in every_look if not _repeats_rows(look)]
        if not looks:
            continue
        std_F, ties_F = pooled_features(looks)
        usable = np.flatnonzero((std_F > 0) & (ties_F < MOSTLY_ONE_VALUE))
        if sum(look.rows for look in looks) < min_rows or len(usable) < 2:
            continue
        normalized = any(look.normalized for look in looks)
        limit = normalized_ratio if normalized else scale_ratio
        last = looks[-1]
        if last.layer_type == DISTANCES and _are_in_order(std_F):
            continue
        ordered = usable[np.argsort(std_F[usable])]
        other = (len(ordered) - 1) // 2 if normalized else 0
        small, large = int(ordered[other]), int(ordered[-1])
        ratio = float(std_F[large] / std_F[small])
        share = float(std_F[large] ** 2 / np.sum(std_F**2))
        if ratio <= limit or (last.layer_type == VARIANCES and share <= variance_share):
            continue
        return Found.of(
            looks,
            f"of the {len(std_F)} input features of {last.layer} ({last.layer_type}), feature "
            f"{large} has a standard deviation of {std_F[large]:.3g} and feature {small} one of "
            f"{std_F[small]:.3g}: {ratio:.3g}x (limit {limit:g}x)",
            count=len(looks),
            evidence={
                "value": ratio,
                "limit": limit,
                "largest_feature": large,
                "smallest_feature": small,
                "largest_std": float(std_F[large]),
                "smallest_std": float(std_F[small]),
            },
            location=last.location,
        )
    return None


def _are_in_order(std_F: Floats) -> bool:
    """Return whether features are in the descending order of their scale, as after PCA."""
    ordered = bool(np.all(std_F[1:] <= NOT_IN_ORDER * std_F[:-1]))
    return ordered and len(std_F) >= FEWEST_COMPONENTS


def _repeats_rows(look: DataTaken) -> bool:
    """Return whether a batch repeats a few rows, like the first batches of a replay buffer."""
    return min(look.feature_ties, default=0.0) > FEW_ROWS
