"""Settings of Lightning that leave out a part of the training batches."""

from __future__ import annotations

from typing import Any


def setting(trainer: Any) -> str:
    """Return the setting that leaves out batches, in the form `name=value`; "" without one."""
    if trainer.overfit_batches:
        return f"overfit_batches={trainer.overfit_batches:g}"
    if trainer.fast_dev_run:
        return f"fast_dev_run={trainer.fast_dev_run}"
    limit = trainer.limit_train_batches
    return "" if limit in (None, 1.0) else f"limit_train_batches={limit:g}"


def share(trainer: Any) -> float | None:
    """Return the share of the training batches that is used; None for all, or if unknown."""
    limit = trainer.overfit_batches or trainer.limit_train_batches
    if isinstance(limit, float):
        return limit if limit < 1 else None
    loader = getattr(trainer.fit_loop._combined_loader, "flattened", [None])[0]
    try:
        batches = len(loader)
    except TypeError:
        return None
    return min(1.0, int(limit) / batches) if batches else None
