"""Common effects of faults, by name: `explains = (*UNLEARNED, "dead_units")`."""

NOT_FINITE = (
    "nonfinite_activation",
    "nonfinite_gradient",
    "nonfinite_loss",
    "nonfinite_weight",
)
"""Values leave the range of numbers."""

UNLEARNED = (
    *("class_imbalance", "confusion", "loss_not_decreasing", "stuck_at_chance"),
    *("cannot_overfit", "input_ignored", "loss_unchanged"),
)
"""The model does not learn, or some of its classes alone."""
