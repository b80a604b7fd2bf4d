"""Imports of a script after which an adapter is loaded, determined without heavy imports."""

from __future__ import annotations

import sys

from mothtrap.core import registry

PACKAGE = "mothtrap.adapters"
TRIGGERS = {
    "sklearn": tuple(
        f"sklearn.{name}"
        for name in ("linear_model", "neural_network", "neighbors", "tree", "naive_bayes")
    ),
    "lightning": ("lightning.pytorch", "pytorch_lightning"),
    "transformers": ("transformers.trainer",),
    "tensorboard": ("torch.utils.tensorboard", "tensorboardX"),
}
"""Imports that load an adapter, for frameworks that almost every script imports for other reasons,
or that have another name.
"""
TABLE_TRIGGERS = {
    "sklearn": tuple(
        f"sklearn.{name}"
        for name in (
            *("model_selection", "ensemble", "svm"),
            *("pipeline", "gaussian_process", "kernel_ridge", "discriminant_analysis"),
        )
    )
}
"""Further imports in a checked process: models that are fitted in one call."""


def triggers(*, tables: bool = False) -> tuple[str, ...]:
    """Return the imports after which an adapter is loaded, with its framework.

    Args:
        tables: include imports of models that are fitted in one call.
    """
    further = TABLE_TRIGGERS if tables else {}
    return tuple(
        name
        for each in frameworks()
        for name in (*TRIGGERS.get(each, (each,)), *further.get(each, ()))
    )


def framework_of(trigger: str) -> str:
    """Return the framework whose adapter an import loads."""
    known = (*TRIGGERS.items(), *TABLE_TRIGGERS.items())
    return next((name for name, of in known if trigger in of), trigger)


def is_too_early(trigger: str) -> bool:
    """Return whether an adapter cannot be imported yet after an import in `TABLE_TRIGGERS`.

    Modules that are still being imported may import this module. The adapter is loaded after one of
    them.
    """
    of = next((name for name, names in TABLE_TRIGGERS.items() if trigger in names), None)
    if of is None:
        return False
    others = [name for name in list(sys.modules) if name.startswith(f"{of}.") and name != trigger]
    specs = (getattr(sys.modules.get(name), "__spec__", None) for name in others)
    return any(getattr(spec, "_initializing", False) for spec in specs)


def frameworks() -> tuple[str, ...]:
    """Return the sorted names of all frameworks with an adapter, without importing them."""
    return registry.names(PACKAGE)
