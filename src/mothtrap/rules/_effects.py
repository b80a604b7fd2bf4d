"""Common effects of faults, by name: `explains = (*UNLEARNED, "dead_units")`."""

NOT_FINITE = (
    "nonfinite_activation",
    "nonfinite_gradient",
    "nonfinite_loss",
    "nonfinite_weight",
)
"""Values become NaN or infinite."""

CONFUSED = ("class_lost_in_evaluation", "confusion")
"""The model takes some classes for others."""

UNLEARNED = (
    *CONFUSED,
    *("class_imbalance", "loss_not_decreasing", "stuck_at_chance"),
    *("cannot_overfit", "input_ignored", "loss_unchanged"),
)
"""The model does not learn, or does not learn some of its classes."""
