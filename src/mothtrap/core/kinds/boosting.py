"""Kinds of tensors that boosted models report when they are requested by name."""

from __future__ import annotations

from typing import Final

from mothtrap.core.kinds import Kind

KINDS: Final = (
    Kind(name="prediction", plural="predictions", of="model", costly=True),
    Kind(name="shap", plural="full_shap", of="model", costly=True),
    Kind(name="average_shap", plural="average_shap", of="model", costly=True),
    Kind(name="importance", plural="feature_importance", of="model", merges=True, costly=True),
    Kind(name="tree", plural="trees", of="model", merges=True, costly=True),
)
