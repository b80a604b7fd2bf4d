"""Values of a tensor over the steps as one labelled array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mothtrap.core.errors import MissingExtraError, StepUnavailableError
from mothtrap.core.steps import StepKey

if TYPE_CHECKING:
    import xarray


def values_over_steps(
    identity: str, found: Sequence[tuple[StepKey, npt.NDArray[Any]]]
) -> xarray.DataArray:
    """Join stored values of several steps into one array.

    Args:
        identity: identity of the tensor, `kind:name`.
        found: values of the tensor, in the order of the moments.

    Raises:
        MissingExtraError: xarray is not installed.
        StepUnavailableError: there are no stored values.
        ValueError: their shapes differ.
    """
    try:
        import xarray
    except ImportError as err:
        raise MissingExtraError("Tensor.to_xarray", "xarray", "analysis") from err
    if not found:
        raise StepUnavailableError(
            f"no values of {identity} were captured, so there is no array; capture them with a "
            "collection that has raw = true, or use its statistics: `history` and `Run.dataset`"
        )
    shapes = sorted({array.shape for _, array in found})
    if len(shapes) > 1:
        raise ValueError(
            f"{identity} has values of {len(shapes)} shapes, {shapes[0]} to {shapes[-1]}: they do "
            "not fit into one array; use part of the run with `run.range`, or `Tensor.values`"
        )
    kind, _, name = identity.partition(":")
    return xarray.DataArray(
        np.stack([array for _, array in found]),
        dims=("step", *(f"dim_{place}" for place in range(len(shapes[0])))),
        coords={"step": [key.step for key, _ in found]},
        name=name,
        attrs={"kind": kind},
    )
