"""Imports of a script after which an adapter is loaded; nothing heavy is imported to know them."""

from __future__ import annotations

from mothtrap.core import registry

PACKAGE = "mothtrap.adapters"
TRIGGERS = {
    "sklearn": ("sklearn.linear_model", "sklearn.neural_network"),
    "lightning": ("lightning.pytorch", "pytorch_lightning"),
    "transformers": ("transformers.trainer",),
    "tensorboard": ("torch.utils.tensorboard", "tensorboardX"),
}
"""Imports that load an adapter, where nearly every script imports the framework for other parts,
or where it has another name."""


def triggers() -> tuple[str, ...]:
    """Return the imports after which an adapter is to be loaded, that of `framework_of` each."""
    return tuple(name for each in frameworks() for name in TRIGGERS.get(each, (each,)))


def framework_of(trigger: str) -> str:
    """Return the framework whose adapter an import loads."""
    return next((name for name, of in TRIGGERS.items() if trigger in of), trigger)


def frameworks() -> tuple[str, ...]:
    """Return the names of all frameworks that have an adapter, sorted; imports none."""
    return registry.names(PACKAGE)
